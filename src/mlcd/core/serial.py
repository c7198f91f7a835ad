"""Nouns to JSON and back: for the store, for --json and for the wire."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

T = TypeVar("T")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def to_json(noun: Any) -> str:
    """The noun as JSON text."""
    return _adapter(cast(Any, type(noun))).dump_json(noun).decode()


def to_data(noun: Any) -> Any:
    """The noun as what json.dumps takes."""
    return _adapter(cast(Any, type(noun))).dump_python(noun, mode="json")


def from_json(kind: type[T], text: str) -> T:
    """The noun that to_json wrote."""
    return cast(T, _adapter(cast(Any, kind)).validate_json(text))


def from_data(kind: type[T], data: Any) -> T:
    """The noun that to_data gave."""
    return cast(T, _adapter(cast(Any, kind)).validate_python(data))
