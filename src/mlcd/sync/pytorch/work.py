"""What the backend needs of torch: Work objects to wait for, tensors as arrays, names of reductions."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import torch
import torch.distributed as dist

from mlcd.errors import UserError
from mlcd.sync.sharding import Array

_Work: Any = dist.Work
_OPERATIONS = {"SUM": "sum", "AVG": "mean", "PRODUCT": "product", "MIN": "min", "MAX": "max"}


class Work(_Work):  # type: ignore[misc]  # torch is typed for some of its versions only
    """A Work around a future that raises the future's error; torch's own does not."""

    def __init__(self, future: Any) -> None:
        super().__init__()
        self._future = future

    def wait(self, timeout: Any = None) -> bool:
        self._future.wait()
        return True

    def get_future(self) -> Any:
        return self._future

    def is_completed(self) -> bool:
        return bool(self._future.done())

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def result(self) -> Any:
        return self._future.wait()

    def exception(self) -> Exception | None:
        ended = outcome(self._future.wait, None)
        return ended if isinstance(ended, Exception) else None


def run_queue(queue: SimpleQueue[Callable[[], None] | None]) -> None:
    """Run the queued functions until None comes."""
    while (run := queue.get()) is not None:
        run()


def outcome(run: Callable[[], Any], result: Any) -> Any:
    """Run an operation; its result, or its error as a value."""
    try:
        with torch.no_grad():
            run()
        return result
    except Exception as error:  # raised again where the program waits
        return error


def result_or_raise(ended: Any) -> Any:
    """The result that `outcome` gave; its error is raised."""
    outcome = ended.value()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def as_array(tensor: Any) -> Array:
    """The tensor's own memory where that is possible, else a copy."""
    tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    if tensor.is_sparse:
        raise UserError("The backend 'mlcd' supports dense tensors only.", "Use sparse=False for embeddings.")
    array: Array = tensor.cpu().contiguous().numpy()
    return array


def write_back(tensor: Any, array: Array) -> None:
    """Put the array into the tensor, unless it is the tensor's own memory."""
    found = torch.from_numpy(array)
    if found.data_ptr() != tensor.data_ptr():
        tensor.detach().copy_(found.view(tensor.shape))


def operation(opts: Any) -> str:
    """Our name of torch's reduction."""
    wanted = dist.ReduceOp.SUM if opts is None else opts.reduceOp
    for name, ours in _OPERATIONS.items():
        if wanted == getattr(dist.ReduceOp, name):
            return ours
    raise UserError(
        f"The backend 'mlcd' does not support the reduction {wanted}.",
        f"Use one of: {', '.join(_OPERATIONS)}.",
    )


def as_list(tensors: Any) -> list[Any]:
    """One tensor or many, as a list."""
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
