"""How many samples a batch holds, whatever it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcd.worker.guard import guard

_PLAIN = (tuple, list)
_DEEPEST = 6
_MOST_PARTS = 16  # a batch of ten thousand words is not searched to its end


def samples_in(batch: Any) -> int | None:
    """Samples in a batch: the leading dimension of its first tensor or, without tensors, its length."""
    leading = leading_dimension(batch)
    if leading is None and isinstance(batch, (list, tuple, set)):
        return len(batch)
    if leading is None and isinstance(batch, Mapping):
        return next((len(value) for value in batch.values() if isinstance(value, (list, tuple))), None)
    return leading


def leading_dimension(batch: Any) -> int | None:
    """The first dimension of the first tensor or array in nested tuples, lists and dicts.

    The common batch (a tensor, or a tuple that begins with one) is answered in line: this runs at every step,
    and between two steps of a fast GPU each further function is felt.
    """
    try:
        return int((batch[0] if type(batch) in _PLAIN else batch).shape[0])
    except Exception:  # whatever it is, it is not one of these
        found = first_tensor(batch)
        return None if found is None else int(found.shape[0])


def first_tensor(batch: Any) -> Any:
    """The first tensor or array with a dimension in nested tuples, lists and dicts; None: there is none."""
    return _search(batch, 0)


@guard(None)
def _search(value: Any, depth: int) -> Any:
    if getattr(value, "shape", None) is not None:
        return value if len(value.shape) else None
    for part in _parts(value) if depth < _DEEPEST else ():
        found = _search(part, depth + 1)
        if found is not None:
            return found
    return None


def _parts(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return list(value.values())[:_MOST_PARTS]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return value[:_MOST_PARTS]
    return ()
