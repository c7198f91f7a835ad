"""The torch.distributed backend `mlcd`: DistributedDataParallel on workers that cannot reach each other.

    torch.distributed.init_process_group("mlcd")        where MLCD_SYNC_URL, RANK and WORLD_SIZE are set

A program that names no backend, or names gloo, gets it too (see mlcd.sync.pytorch.hook).

Operations run one after the other in a thread of their own, so that the gradients of the last layers travel while those of
the first are still computed. Tensors on the processor are reduced where they lie; others, and bfloat16, go through a copy.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from mlcd.errors import UserError
from mlcd.sync.group import Group, join
from mlcd.sync.pytorch.work import (
    Work,
    as_array,
    as_list,
    operation,
    outcome,
    result_or_raise,
    run_queue,
    write_back,
)
from mlcd.sync.sharding import Array

_ProcessGroup: Any = dist.ProcessGroup
_NAME = "mlcd"
_OPEN: weakref.WeakSet[StoreProcessGroup] = weakref.WeakSet()
_NOT_SENT = "The backend 'mlcd' has no {}: workers do not reach each other."


class StoreProcessGroup(_ProcessGroup):  # type: ignore[misc]  # torch has its signatures wrong for subclasses
    """A process group whose workers exchange tensors through a parameter store."""

    def __init__(self, group: Group, name: str) -> None:
        super().__init__(group.rank, group.world_size)
        self.group = group
        self._name = name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=run_queue, args=(self._queue,), name=f"mlcd-sync-{name}", daemon=True)
        self._thread.start()
        _OPEN.add(self)

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        reduce = functools.partial(self.group.all_reduce, op=operation(opts))
        return self._in_place(as_list(tensors), reduce)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        return self.allreduce(tensors, opts)  # what is on the other ranks afterwards is not defined

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        root = opts.rootRank if opts is not None else 0
        return self._in_place(as_list(tensors), lambda arrays: self.group.broadcast(arrays, root))

    def barrier(self, opts: Any = None) -> Any:
        return self._in_place([], lambda _: self.group.barrier())

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return self._later(lambda: self._gather(outputs, inputs), outputs)

    def all_gather_single(self, output: Any, tensor: Any, opts: Any = None) -> Any:
        rows = list(output.view(self.group.world_size, -1))
        return self._later(lambda: self._gather([rows], [tensor]), [output])

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        rows = [list(output.view(self.group.world_size, -1)) for output in outputs]
        return self._later(lambda: self._gather(rows, inputs), outputs)

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        if opts is None or opts.rootRank != self.group.rank:
            outputs = [[torch.empty_like(inputs[0]) for _ in range(self.group.world_size)]]
        return self.allgather(outputs, inputs)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        root = opts.rootRank if opts is not None else 0
        return self._later(lambda: self._scatter(outputs[0], inputs, root), outputs)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return self._later(lambda: self._reduce_scatter(outputs, inputs, operation(opts)), outputs)

    def reduce_scatter_single(self, output: Any, tensor: Any, opts: Any = None) -> Any:
        rows = list(tensor.view(self.group.world_size, -1))
        return self._later(lambda: self._reduce_scatter([output], [rows], operation(opts)), [output])

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        rows = [list(tensor.view(self.group.world_size, -1)) for tensor in inputs]
        return self._later(lambda: self._reduce_scatter(outputs, rows, operation(opts)), outputs)

    # As torch before 2.9 calls them.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def send(self, *args: Any) -> Any:
        raise UserError(_NOT_SENT.format("send"), "Use broadcast, or a collective operation.")

    def recv(self, *args: Any) -> Any:
        raise UserError(_NOT_SENT.format("recv"), "Use broadcast, or a collective operation.")

    def recv_anysource(self, *args: Any) -> Any:
        raise UserError(_NOT_SENT.format("recv"), "Use broadcast, or a collective operation.")

    def alltoall(self, *args: Any) -> Any:
        raise UserError(_NOT_SENT.format("all_to_all"), "Use all_gather.")

    alltoall_base = all_to_all_single = alltoall

    def shutdown(self) -> None:
        """End the thread and leave the group; twice is quiet."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
            self.group.close()
        _OPEN.discard(self)

    abort = shutdown

    def size(self) -> int:
        return self.group.world_size

    def rank(self) -> int:
        return self.group.rank

    def name(self) -> str:
        return _NAME

    def getBackendName(self) -> str:  # noqa: N802  # torch's name
        return _NAME

    @property
    def group_name(self) -> str:
        return self._name

    def _in_place(self, tensors: Sequence[Any], work: Callable[[list[Array]], None]) -> Any:
        def run() -> None:
            arrays = [as_array(tensor) for tensor in tensors]
            work(arrays)
            for tensor, array in zip(tensors, arrays, strict=True):
                write_back(tensor, array)

        return self._later(run, tensors)

    def _gather(self, outputs: Any, inputs: Any) -> None:
        for rows, tensor in zip(outputs, inputs, strict=True):
            gathered = self.group.all_gather(as_array(tensor).reshape(-1))
            for row, array in zip(rows, gathered, strict=True):
                write_back(row, array)

    def _scatter(self, output: Any, inputs: Any, root: int) -> None:
        rows = np.empty((self.group.world_size, output.numel()), as_array(output).dtype)
        if self.group.rank == root:
            for row, tensor in zip(rows, inputs[0], strict=True):
                row[:] = as_array(tensor).reshape(-1)
        self.group.broadcast(rows, root)
        write_back(output, rows[self.group.rank])

    def _reduce_scatter(self, outputs: Any, inputs: Any, op: str) -> None:
        for output, rows in zip(outputs, inputs, strict=True):
            stacked = np.stack([as_array(row).reshape(-1) for row in rows])
            write_back(output, self.group.reduce_scatter(stacked, op))

    def _later(self, run: Callable[[], None], result: Any) -> Any:
        """Queue an operation; returns the Work that torch waits for."""
        ended: torch.futures.Future[Any] = torch.futures.Future()
        work = Work(ended.then(result_or_raise))
        self._queue.put(lambda: ended.set_result(outcome(run, result)))
        return work


def _create(options: Any, _: Any) -> StoreProcessGroup:
    name = re.sub(r"[^A-Za-z0-9_-]", "-", options.group_id or "world")[-40:]
    timeout_s = None if os.environ.get("MLCD_SYNC_TIMEOUT") else options.timeout.total_seconds()
    group = join(rank=options.group_rank, world_size=options.group_size, name=f"torch-{name}", timeout_s=timeout_s)
    return StoreProcessGroup(group, options.group_id)


@atexit.register
def _close_all() -> None:
    for group in list(_OPEN):
        group.shutdown()


dist.Backend.register_backend(_NAME, _create, extended_api=True, devices=["cpu", "cuda"])
