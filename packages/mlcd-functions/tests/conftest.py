"""The cloud functions with homes in folders of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from function_tasks import Field


@pytest.fixture
def fields(tmp_path: Path) -> Iterator[Any]:
    opened: list[Field] = []

    def open_field(**changes: Any) -> Field:
        opened.append(Field(tmp_path / f"home-{len(opened)}", **changes))
        return opened[-1]

    yield open_field
    for field in opened:
        field.end_everything()
