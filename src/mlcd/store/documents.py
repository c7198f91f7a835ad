"""Nouns as the text of a column, and back."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import ValidationError

from mlcd.core.serial import from_json, to_data
from mlcd.errors import StoreError

T = TypeVar("T")


def write(noun: Any) -> str:
    """The noun as JSON that reads back the same, endless forecasts and NaN included."""
    return sound(json.dumps(to_data(noun), ensure_ascii=False))


def read(kind: type[T], text: str) -> T:
    """The noun that was written."""
    try:
        return from_json(kind, text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise StoreError(
            f"A stored {kind.__name__} cannot be read: {place}: {first['msg']}.",
            "It may come from another version of mlcd: install the newest one.",
        ) from error


def sound(text: str) -> str:
    """The text without what a database cannot keep: NUL, and halves of characters from a program's log."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
