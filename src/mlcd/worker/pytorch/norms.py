"""Squared norms of gradients, on whatever device they are and without waiting for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def squared_norm(tensors: Iterable[Any]) -> Any:
    """The sum of squares over all tensors, as a tensor of one number; None where there are none."""
    dense = [_dense(tensor.detach()) for tensor in tensors if tensor is not None]
    if not dense:
        return None
    norms = torch._foreach_norm(dense, 2, dtype=torch.float32)
    return sum_of_squares(norms)


def sum_of_squares(norms: Iterable[Any]) -> Any:
    """The squared norm of all, out of the norms of the parts."""
    parts = list(norms)
    device = parts[0].device
    return torch.stack([part.to(device) for part in parts]).square().sum()


def norm(tensor: Any) -> Any:
    """The norm of one tensor."""
    return torch.linalg.vector_norm(_dense(tensor.detach()), dtype=torch.float32)


def _dense(tensor: Any) -> Any:
    return tensor.coalesce().values() if tensor.is_sparse else tensor


class Numbers:
    """A few numbers on their way from the device; nobody waits for them."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        parts = list(tensors)
        values = torch.stack([part.to(parts[0].device, torch.float32) for part in parts])
        self._event: Any = None
        if values.device.type == "cuda":
            self._values = torch.empty(len(parts), dtype=torch.float32, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch does not annotate it
            self._event.record(torch.cuda.current_stream(values.device))
        else:
            self._values = values

    def read(self) -> list[float] | None:
        """The numbers, or None if they are still on their way."""
        if self._event is not None and not self._event.query():
            return None
        return [float(value) for value in self._values.tolist()]
