from __future__ import annotations

import json
from dataclasses import replace

from forecast.steps import LAW
from mlcd.forecast.statistical import Work
from mlcd.forecast.stored import StoredModel, from_document, to_document


def test_a_model_comes_back_as_it_was_stored() -> None:
    law = replace(LAW, log_sync={(2, 1): 0.5, (4, 8): -0.1})
    model = StoredModel("j", "abc", {"t4": law}, 900.0, 300.0, 32, Work(64, 1e6))
    assert from_document(json.loads(json.dumps(to_document(model)))) == model
    empty = StoredModel("j", "abc")
    assert from_document(json.loads(json.dumps(to_document(empty)))) == empty
