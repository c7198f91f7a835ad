"""Workers that train together: collective operations on NumPy arrays."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlcd.errors import UserError, did_you_mean
from mlcd.sync.errors import SyncError
from mlcd.sync.hierarchy import Exchange, Reduction
from mlcd.sync.kept import Kept
from mlcd.sync.sharding import Array, cut_into_chunks, cut_into_rounds, flat, pack
from mlcd.sync.store import Member, ParameterStore, open_store
from mlcd.sync.timeouts import WorkerTimeout
from mlcd.sync.timing import StepTimes, Stopwatch
from mlcd.worker.api import facts_of
from mlcd.worker.checkpoints import Facts
from mlcd.worker.guard import log_once
from mlcd.worker.session import current

DEFAULT_TIMEOUT_S = 300.0
_CLOSE_TIMEOUT_S = 10.0  # that the first to leave waits for the last
_SMALL_BYTES = 1 << 20  # buffers below this size are put together
_FACTS_BYTES = 1024

_REDUCTIONS = {
    "sum": Reduction(np.add),
    "mean": Reduction(np.add, mean=True),
    "product": Reduction(np.multiply),
    "min": Reduction(np.minimum),
    "max": Reduction(np.maximum),
}


joined = 0  # groups of several workers, in this process


def join(
    url: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    generation: int | None = None,
    *,
    name: str = "sync",
    task: str | None = None,
    timeout_s: float | None = None,
    position: int | None = None,
) -> Group:
    """Join the other workers; arguments that are not given are read from the environment (see mlcd.sync)."""
    env = os.environ
    url = url or env.get("MLCD_SYNC_URL") or env.get("MLCD_SYNC_STORE", "")
    member = Member(
        rank=int(env.get("RANK", 0)) if rank is None else rank,
        world_size=int(env.get("WORLD_SIZE", 1)) if world_size is None else world_size,
        generation=int(env.get("MLCD_SYNC_GENERATION", 0)) if generation is None else generation,
        name=name,
        task=env.get("MLCD_SYNC_TASK", "") if task is None else task,
        position=int(env.get("MLCD_SYNC_POSITION", 0)) if position is None else position,
    )
    timeout = float(env.get("MLCD_SYNC_TIMEOUT", DEFAULT_TIMEOUT_S)) if timeout_s is None else timeout_s
    if not 0 <= member.rank < member.world_size:
        raise UserError(f"Rank {member.rank} is not among {member.world_size} workers.")
    if not url and member.world_size > 1:
        raise UserError(
            "No parameter store is set: only the clouds `local` and `functions` provide one.",
            "Set MLCD_SYNC_URL to redis://HOST:PORT or shm://NAME.",
        )
    global joined
    joined += member.world_size > 1
    return Group(open_store(url, member) if member.world_size > 1 else None, member, timeout)


class Group:
    """One worker's place among all; every worker calls the same operations in the same order.

    Arrays must be contiguous. After an error their contents are undefined and the group cannot be used again: join the
    next generation.
    """

    def __init__(self, store: ParameterStore | None, member: Member, timeout_s: float) -> None:
        self.rank, self.world_size, self.generation = member.rank, member.world_size, member.generation
        self.timeout_s = timeout_s
        self.position = member.position  # numbers used so far: where a restarted worker goes on
        self._store = store
        self._watch = Stopwatch()
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        keep = os.environ.get("MLCD_SYNC_KEEP")
        self._kept = Kept(Path(keep, member.name)) if keep else None
        if store is not None:
            self._exchange = Exchange(store, self.rank, self.world_size, self._new_timeout, self._watch)

    @property
    def times(self) -> StepTimes:
        """Seconds so far in each step of the synchronisation."""
        under_way = self._store.times if self._store is not None else None
        return under_way or self._watch.times

    def all_reduce(self, buffers: Sequence[Array] | Array, op: str = "sum") -> None:
        """Replace each buffer by the sum (mean, product, min or max) over all workers."""
        arrays = _flat_list(buffers)
        reduction = _reduction(op, arrays)
        with self._using() as store:
            if store is not None:
                private = self._reduce_shared(store, arrays, reduction)
                packed, copies = pack(private, _SMALL_BYTES)
                rounds = cut_into_rounds(packed, self.world_size, store.parcel_bytes)
                self._exchange.all_reduce(rounds, self._take(len(rounds)), reduction)
                for small, joined in copies:
                    small[:] = joined

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> Array:
        """A new array in the store's shared memory, if it has any: all_reduce then copies nothing.

        Every worker asks for the same arrays in the same order.
        """
        sizes = (shape,) if isinstance(shape, int) else shape
        if self._store is None or self._store.buffers is None:
            return np.empty(sizes, dtype)
        size = math.prod(sizes) * np.dtype(dtype).itemsize
        array: Array = self._store.buffers.allocate(size).view(dtype).reshape(sizes)
        return array

    def broadcast(self, buffers: Sequence[Array] | Array, root: int = 0) -> None:
        """Replace each buffer by the root's."""
        arrays = _flat_list(buffers)
        packed, copies = pack(arrays, _SMALL_BYTES)
        with self._using() as store:
            if store is not None:
                chunks = [chunk for one in packed for chunk in cut_into_chunks(one, store.parcel_bytes)]
                self._exchange.broadcast(chunks, self._take(len(chunks) + 1), root)
        for small, joined in copies:
            small[:] = joined

    def all_gather(self, array: Array) -> Array:
        """Every worker's array, one after the other along a new first dimension."""
        gathered = np.empty((self.world_size, *array.shape), array.dtype)
        gathered[self.rank] = array
        with self._using() as store:
            if store is not None:
                rounds = _rounds_of_rows(gathered, store.parcel_bytes)
                self._exchange.all_gather(rounds, self._take(len(rounds)))
        return gathered

    def reduce_scatter(self, array: Array, op: str = "sum") -> Array:
        """This worker's share of the sum over all workers: array[rank], of an array with one row per worker."""
        if array.shape[:1] != (self.world_size,):
            raise ValueError(f"The first dimension must be the number of workers, {self.world_size}.")
        reduction = _reduction(op, [array])
        share = np.array(array[self.rank])
        with self._using() as store:
            if store is not None:
                rounds = _rounds_of_rows(np.ascontiguousarray(array), store.parcel_bytes)
                into = cut_into_chunks(flat(share), store.parcel_bytes)
                self._exchange.reduce_scatter(rounds, self._take(len(rounds)), reduction, into)
        return share

    def barrier(self) -> None:
        """Wait until all workers are here."""
        with self._using() as store:
            if store is not None:
                self._exchange.barrier(self._take(1), 0)

    @property
    def keeps(self) -> bool:
        """Whether what is given to keep() is kept: on functions, as long as there is room."""
        return self._kept is not None

    def keep(self, state: Sequence[Array], step: int) -> None:
        """Keep the state after this step, so that it outlives this program; without room for it, checkpoints have to do.

        Call it after each iteration, and after `mlcd.report`: one that is lost throws nobody back further than to here.
        """
        if self._kept is None:
            return
        try:
            facts = replace(facts_of(current()), metrics={})
            self._kept.write(step, facts, [flat(array) for array in state])
        except OSError as error:
            log_once(f"the newest iteration is not kept: {error}")
            self._kept = None

    def restore(self, state: Sequence[Array], step: int = 0) -> int:
        """Replace the state by the newest that a worker has kept or is given here, and return the step that it is of.

        Every worker calls it once it has joined, with the state of its checkpoint or a fresh one. mlcd counts on from there.
        """
        arrays = [flat(array) for array in state]
        kept = self._kept.newest(arrays) if self._kept is not None else None
        steps = self.all_gather(np.array([step if kept is None else max(step, kept.step)]))[:, 0]
        newest, root = int(steps.max()), int(steps.argmax())
        facts = np.zeros(_FACTS_BYTES, np.uint8)
        if self.rank == root and kept is not None and self._kept is not None and kept.step > step:
            self._kept.load(kept, arrays)
            text = json.dumps(asdict(kept.facts)).encode()
            facts[: len(text)] = np.frombuffer(text, np.uint8)
        self.broadcast([*arrays, facts], root)
        if facts.any():
            told = json.loads(facts.tobytes().rstrip(b"\0"))
            current().continue_from(Facts(**{**told, "reported": tuple(told["reported"])}))
            self.keep(arrays, newest)  # whoever has handed it on may be the next that is lost
        return newest

    def close(self) -> None:
        """Leave the group; where all workers end together, what this one has left in the store is removed."""
        if self._store is None:
            return
        self.timeout_s = min(self.timeout_s, _CLOSE_TIMEOUT_S)
        with contextlib.suppress(SyncError):
            self.barrier()
        self._store.close(orderly=self._failure is None)
        self._store = None

    def __enter__(self) -> Group:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._failure = self._failure or error
        self.close()

    def _reduce_shared(self, store: ParameterStore, arrays: list[Array], reduction: Reduction) -> list[Array]:
        """Reduce the arrays that lie in shared memory; return the others."""
        private = []
        for array in arrays:
            if store.buffers is not None and store.buffers.holds(array):
                of_all = functools.partial(store.buffers.of_all, array)
                self._exchange.all_reduce_in_place(of_all, self._take(2), reduction)
            else:
                private.append(array)
        return private

    def _take(self, count: int) -> int:
        first = self.position
        self.position += count
        return first

    def _new_timeout(self) -> WorkerTimeout:
        assert self._store is not None
        return WorkerTimeout(self._store, self.timeout_s, self.generation)

    @contextlib.contextmanager
    def _using(self) -> Iterator[ParameterStore | None]:
        """The store, for one operation at a time, as long as none has failed; None where this worker is the only one."""
        with self._lock:
            if isinstance(self._failure, SyncError):
                raise self._failure
            if self._failure is not None:
                raise SyncError("An earlier operation of this group has failed.", "Join the next generation.")
            try:
                yield self._store
                if self._store is not None:
                    self._store.flush()
            except BaseException as error:
                self._failure = error
                raise


def _flat_list(buffers: Sequence[Array] | Array) -> list[Array]:
    return [flat(buffer) for buffer in ([buffers] if isinstance(buffers, np.ndarray) else buffers)]


def _reduction(op: str, arrays: Sequence[Array]) -> Reduction:
    if op not in _REDUCTIONS:
        raise UserError(f"Unknown reduction '{op}'.", did_you_mean(op, _REDUCTIONS))
    if op == "mean" and not all(np.issubdtype(one.dtype, np.inexact) for one in arrays):
        raise UserError("'mean' needs floating-point numbers.")
    return _REDUCTIONS[op]


def _rounds_of_rows(rows: Array, chunk_bytes: int) -> list[list[Array]]:
    flat_rows = rows.reshape(len(rows), rows.size // len(rows))
    columns = [cut_into_chunks(row, chunk_bytes) for row in flat_rows]
    return [list(chunks) for chunks in zip(*columns, strict=True)]
