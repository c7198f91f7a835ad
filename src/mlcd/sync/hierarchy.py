"""Hierarchical synchronisation: the paper's figure 5, pipelined over rounds.

Each worker aggregates one shard. In every round it

    uploads its chunk of every other worker's shard         UL-shard
    downloads everybody's chunk of its own and adds them    DL-shard
    uploads the sum                                         UL-aggr
    downloads the sums of the other shards                  DL-grad

While the others' chunks of a round are on their way, the next rounds' are uploaded: in one turn of the loop a worker
uploads round i, aggregates round i − LAG and collects round i − 2 × LAG. It announces to the store what it
will need, so that this comes while the worker is busy with something else. Sums are taken in the order of the ranks, so they do not
depend on who was first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mlcd.sync.sharding import Array, Round, cut_into_chunks, shards
from mlcd.sync.store import PIECE, RESULT, WINDOW, Bytes, ParameterStore, Timeout, as_bytes
from mlcd.sync.timing import DL_GRAD, DL_SHARD, UL_AGGR, UL_SHARD, Stopwatch

_EMPTY: Array = np.empty(0, np.uint8)
_CACHED_BYTES = 128 << 10  # summed while they are in the processor's cache
_LAG = (WINDOW - 1) // 2  # rounds between upload and aggregation, and between aggregation and collection


@dataclass(frozen=True)
class Reduction:
    """What becomes of the values of all workers: combined two by two, then divided by their number for a mean."""

    combine: np.ufunc = np.add
    mean: bool = False


class Exchange:
    """One worker's part in the exchange of chunks with the others."""

    def __init__(
        self,
        store: ParameterStore,
        rank: int,
        world_size: int,
        new_timeout: Callable[[], Timeout],
        watch: Stopwatch,
    ) -> None:
        self._store = store
        self._rank, self._world_size = rank, world_size
        self._others = [other for other in range(world_size) if other != rank]
        self._new_timeout = new_timeout
        self._watch = watch
        self._sum = np.empty(max(_CACHED_BYTES, store.parcel_bytes), np.uint8)  # so far
        self._incoming = np.empty((WINDOW, world_size - 1, store.parcel_bytes), np.uint8)

    def all_reduce(self, rounds: Sequence[Round], first: int, reduction: Reduction) -> None:
        """Put the combined values of all workers in the place of this worker's."""
        self._watch.start()
        for turn in range(len(rounds) + 2 * _LAG):
            summed, collected = turn - _LAG, turn - 2 * _LAG
            if turn < len(rounds):
                # What comes takes the place of what goes, but only the receiver of the one can have sent the other.
                self._expect(RESULT, first + turn, self._of_others(rounds[turn]))
                self._upload(rounds[turn], first + turn)
            if 0 <= summed < len(rounds):
                chunks = rounds[summed]
                self._aggregate(chunks, first + summed, reduction, chunks[self._rank])
                self._upload_own(chunks, first + summed)
            if collected >= 0:
                self._collect(rounds[collected], first + collected)

    def all_reduce_in_place(self, arrays_of_all: Callable[[], list[Array]], first: int, reduction: Reduction) -> None:
        """The same on arrays in memory that all share: each worker writes the sums of its shard into everybody's.

        Two numbers are used: one when all gradients are there, and one when all sums are.
        """
        self._watch.start()
        self._barrier_of_all(first)
        self._watch.done(UL_SHARD)
        arrays = arrays_of_all()
        shard = shards(arrays[0].size, self._world_size)[self._rank]
        for chunks in zip(*(cut_into_chunks(array[shard], _CACHED_BYTES) for array in arrays), strict=True):
            total = self._sum[: chunks[0].nbytes].view(chunks[0].dtype)
            _combine(iter(chunks), self._world_size, reduction, total, total)
            self._watch.done(DL_SHARD)
            for chunk in chunks:
                chunk[:] = total
            self._watch.done(UL_AGGR)
        self._barrier_of_all(first + 1)
        self._watch.done(DL_GRAD)

    def reduce_scatter(self, rounds: Sequence[Round], first: int, reduction: Reduction, into: Sequence[Array]) -> None:
        """Put the combined values of this worker's own shard into chunks of its size."""
        self._watch.start()
        for turn in range(len(rounds) + _LAG):
            summed = turn - _LAG
            if turn < len(rounds):
                self._upload(rounds[turn], first + turn)
            if summed >= 0:
                self._aggregate(rounds[summed], first + summed, reduction, into[summed])

    def all_gather(self, rounds: Sequence[Round], first: int) -> None:
        """Put every worker's own chunks in their places here."""
        self._watch.start()
        for turn in range(len(rounds) + _LAG):
            collected = turn - _LAG
            if turn < len(rounds):
                self._expect(RESULT, first + turn, self._of_others(rounds[turn]))
                self._upload_own(rounds[turn], first + turn)
            if collected >= 0:
                self._collect(rounds[collected], first + collected)

    def broadcast(self, chunks: Sequence[Array], first: int, root: int) -> None:
        """Put the root's chunks in the place of this worker's; one number more is used to let all know that all have them."""
        lag = WINDOW - 1
        for number, chunk in enumerate(chunks if self._rank != root else (), first):
            self._store.expect(RESULT, number, [root], [as_bytes(chunk)])
        for turn in range(len(chunks) + lag):
            if turn < len(chunks) and self._rank == root:
                self._store.publish(first + turn, as_bytes(chunks[turn]))
            elif turn < len(chunks):
                self._receive(RESULT, first + turn, [root], [as_bytes(chunks[turn])])
                self._store.send(first + turn, {root: _EMPTY})
            if lag <= turn and self._rank == root:
                self._receive(PIECE, first + turn - lag, self._others, [_EMPTY] * len(self._others))
        self.barrier(first + len(chunks), root)

    def barrier(self, number: int, root: int) -> None:
        """Wait until all workers are here."""
        if self._rank == root:
            self._receive(PIECE, number, self._others, [_EMPTY] * len(self._others))
            self._store.publish(number, _EMPTY)
        else:
            self._store.send(number, {root: _EMPTY})
            self._receive(RESULT, number, [root], [_EMPTY])

    def _barrier_of_all(self, number: int) -> None:
        """Wait until every worker has come this far."""
        self._store.publish(number, _EMPTY)
        self._receive(RESULT, number, self._others, [_EMPTY] * len(self._others))

    def _upload(self, chunks: Round, number: int) -> None:
        self._expect(PIECE, number, self._places(chunks, number))
        self._store.send(number, {other: as_bytes(chunks[other]) for other in self._others})
        self._watch.done(UL_SHARD)

    def _aggregate(self, chunks: Round, number: int, reduction: Reduction, into: Array) -> None:
        mine = chunks[self._rank]
        arriving = self._store.receive(PIECE, number, self._others, self._places(chunks, number), self._new_timeout())
        parts = (mine if rank == self._rank else next(arriving).view(mine.dtype) for rank in range(self._world_size))
        _combine(parts, self._world_size, reduction, self._sum[: mine.nbytes].view(mine.dtype), into)
        self._watch.done(DL_SHARD)

    def _upload_own(self, chunks: Round, number: int) -> None:
        self._store.publish(number, as_bytes(chunks[self._rank]))
        self._watch.done(UL_AGGR)

    def _collect(self, chunks: Round, number: int) -> None:
        self._receive(RESULT, number, self._others, self._of_others(chunks))
        self._watch.done(DL_GRAD)

    def _places(self, chunks: Round, number: int) -> list[Bytes]:
        """Where the others' chunks of this worker's shard go."""
        return list(self._incoming[number % WINDOW, :, : chunks[self._rank].nbytes])

    def _of_others(self, chunks: Round) -> list[Bytes]:
        return [as_bytes(chunks[other]) for other in self._others]

    def _expect(self, kind: int, number: int, into: Sequence[Bytes]) -> None:
        self._store.expect(kind, number, self._others, into)

    def _receive(self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes]) -> None:
        for _ in self._store.receive(kind, number, sources, into, self._new_timeout()):
            pass


def _combine(parts: Iterator[Array], count: int, reduction: Reduction, so_far: Array, into: Array) -> None:
    """The parts in their order, combined into an array; so_far is of its size."""
    total = next(parts)
    for index in range(1, count):
        total = reduction.combine(total, next(parts), out=into if index == count - 1 else so_far)
    if reduction.mean:
        np.divide(into, count, out=into)
