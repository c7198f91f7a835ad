"""How many samples a batch holds, whatever it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_DEEPEST = 6


def samples_in(batch: Any) -> int | None:
    """Samples in a batch: the leading dimension of its first tensor or, without tensors, its length."""
    leading = leading_dimension(batch)
    if leading is None and isinstance(batch, (list, tuple, set)):
        return len(batch)
    if leading is None and isinstance(batch, Mapping):
        return next((len(value) for value in batch.values() if isinstance(value, (list, tuple))), None)
    return leading


def leading_dimension(value: Any, depth: int = 0) -> int | None:
    """The first dimension of the first tensor or array in nested tuples, lists and dicts."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return _first(shape)
    if depth >= _DEEPEST or isinstance(value, (str, bytes)):
        return None
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Sequence):
        for part in value[:16]:  # a batch of ten thousand words is not searched to its end
            leading = leading_dimension(part, depth + 1)
            if leading is not None:
                return leading
    return None


def _first(shape: Any) -> int | None:
    try:
        return int(shape[0]) if len(shape) else None
    except (TypeError, ValueError, IndexError):
        return None
