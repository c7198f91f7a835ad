from collections import UserDict
from typing import Any

import numpy as np
import pytest

from mlcd.worker.batch_samples import leading_dimension, samples_in

X, Y = np.zeros((32, 8)), np.zeros(32)


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (X, 32),
        ((X, Y), 32),
        ([[{"a": "text", "b": X}]], 32),
        ({"input_ids": X, "labels": Y}, 32),
        (UserDict(input_ids=X), 32),
        ((np.float32(0.5), X), 32),
        (["a", "bc", "def"], 3),
        ({"text": ["a", "bc"]}, 2),
        ("one text", None),
        (7, None),
        (None, None),
    ],
)
def test_samples_in_a_batch(batch: Any, samples: int | None) -> None:
    assert samples_in(batch) == samples


def test_a_batch_that_holds_itself_is_not_searched_for_ever() -> None:
    batch: list[Any] = []
    batch.append(batch)
    assert leading_dimension(batch) is None
