"""Hierarchical synchronisation: the paper's figure 5, pipelined over rounds.

Each worker aggregates one shard. In every round it

    uploads its chunk of every other worker's shard         UL-shard
    downloads everybody's chunk of its own and adds them    DL-shard
    uploads the sum                                         UL-aggr
    downloads the sums of the other shards                  DL-grad

While the others' chunks of a round are on their way, the next round's are uploaded: in one turn of the loop a worker
uploads round i, aggregates round i − 1 and collects round i − 2. Sums are taken in the order of the ranks, so they do not
depend on who was first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mlcd.sync.rounds import Array, Round, cut_into_chunks, shards
from mlcd.sync.store import PIECE, RESULT, WINDOW, Bytes, ParameterStore, Patience, as_bytes
from mlcd.sync.times import Stopwatch

_EMPTY: Array = np.empty(0, np.uint8)
_CACHED_BYTES = 128 << 10  # summed while they are in the processor's cache


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
        new_patience: Callable[[], Patience],
        watch: Stopwatch,
    ) -> None:
        self._store = store
        self._rank, self._world_size = rank, world_size
        self._others = [other for other in range(world_size) if other != rank]
        self._new_patience = new_patience
        self._watch = watch
        self._scratch = np.empty(
            (2, max(_CACHED_BYTES, store.parcel_bytes)), np.uint8
        )  # the sum so far, and what comes in

    def all_reduce(self, rounds: Sequence[Round], first: int, reduction: Reduction) -> None:
        """Put the combined values of all workers in the place of this worker's."""
        self._watch.start()
        for turn in range(len(rounds) + 2):
            if turn < len(rounds):
                self._upload(rounds[turn], first + turn)
            if 1 <= turn <= len(rounds):
                chunks = rounds[turn - 1]
                self._aggregate(chunks, first + turn - 1, reduction, chunks[self._rank])
                self._upload_own(chunks, first + turn - 1)
            if turn >= 2:
                self._collect(rounds[turn - 2], first + turn - 2)

    def all_reduce_in_place(
        self, arrays_of_all: Callable[[], list[Array]], first: int, reduction: Reduction
    ) -> None:
        """The same on arrays in memory that all share: each worker writes the sums of its shard into everybody's.

        Two numbers are used: one when all gradients are there, and one when all sums are.
        """
        self._watch.start()
        self._tell_all(first)
        self._watch.done("ul_shard_s")
        arrays = arrays_of_all()
        shard = shards(arrays[0].size, self._world_size)[self._rank]
        for chunks in zip(*(cut_into_chunks(array[shard], _CACHED_BYTES) for array in arrays), strict=True):
            total = self._scratch[0, : chunks[0].nbytes].view(chunks[0].dtype)
            _combine(iter(chunks), self._world_size, reduction, total, total)
            self._watch.done("dl_shard_s")
            for chunk in chunks:
                chunk[:] = total
            self._watch.done("ul_aggr_s")
        self._tell_all(first + 1)
        self._watch.done("dl_grad_s")

    def reduce_scatter(
        self, rounds: Sequence[Round], first: int, reduction: Reduction, into: Sequence[Array]
    ) -> None:
        """Put the combined values of this worker's own shard into chunks of its size."""
        self._watch.start()
        for turn in range(len(rounds) + 1):
            if turn < len(rounds):
                self._upload(rounds[turn], first + turn)
            if turn >= 1:
                self._aggregate(rounds[turn - 1], first + turn - 1, reduction, into[turn - 1])

    def all_gather(self, rounds: Sequence[Round], first: int) -> None:
        """Put every worker's own chunks in their places here."""
        self._watch.start()
        for turn in range(len(rounds) + 1):
            if turn < len(rounds):
                self._upload_own(rounds[turn], first + turn)
            if turn >= 1:
                self._collect(rounds[turn - 1], first + turn - 1)

    def broadcast(self, chunks: Sequence[Array], first: int, root: int) -> None:
        """Put the root's chunks in the place of this worker's; one number more is used to let all know that all have them."""
        lag = WINDOW - 1
        for turn in range(len(chunks) + lag):
            if turn < len(chunks) and self._rank == root:
                self._store.publish(first + turn, as_bytes(chunks[turn]))
            elif turn < len(chunks):
                self._receive(RESULT, first + turn, [root], [as_bytes(chunks[turn])])
                self._store.send(first + turn, {root: _EMPTY})
            if lag <= turn and self._rank == root:
                self._receive(PIECE, first + turn - lag, self._others, [_EMPTY] * len(self._others))
        self.meet(first + len(chunks), root)

    def meet(self, number: int, root: int) -> None:
        """Go on when all workers are here."""
        if self._rank == root:
            self._receive(PIECE, number, self._others, [_EMPTY] * len(self._others))
            self._store.publish(number, _EMPTY)
        else:
            self._store.send(number, {root: _EMPTY})
            self._receive(RESULT, number, [root], [_EMPTY])

    def _tell_all(self, number: int) -> None:
        """Go on when every worker has come this far."""
        self._store.publish(number, _EMPTY)
        self._receive(RESULT, number, self._others, [_EMPTY] * len(self._others))

    def _upload(self, chunks: Round, number: int) -> None:
        self._store.send(number, {other: as_bytes(chunks[other]) for other in self._others})
        self._watch.done("ul_shard_s")

    def _aggregate(self, chunks: Round, number: int, reduction: Reduction, into: Array) -> None:
        mine = chunks[self._rank]
        so_far, place = (row[: mine.nbytes] for row in self._scratch)
        places = [place] * len(self._others)
        if self._rank:
            places[0] = so_far  # the first to come stays until the second is added to it
        arriving = self._store.receive(PIECE, number, self._others, places, self._new_patience())
        parts = (
            mine if rank == self._rank else next(arriving).view(mine.dtype)
            for rank in range(self._world_size)
        )
        _combine(parts, self._world_size, reduction, so_far.view(mine.dtype), into)
        self._watch.done("dl_shard_s")

    def _upload_own(self, chunks: Round, number: int) -> None:
        self._store.publish(number, as_bytes(chunks[self._rank]))
        self._watch.done("ul_aggr_s")

    def _collect(self, chunks: Round, number: int) -> None:
        self._receive(RESULT, number, self._others, [as_bytes(chunks[other]) for other in self._others])
        self._watch.done("dl_grad_s")

    def _receive(self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes]) -> None:
        for _ in self._store.receive(kind, number, sources, into, self._new_patience()):
            pass


def _combine(parts: Iterator[Array], count: int, reduction: Reduction, so_far: Array, into: Array) -> None:
    """The parts in their order, combined into an array; so_far may be the first of them."""
    total = next(parts)
    for index in range(1, count):
        total = reduction.combine(total, next(parts), out=into if index == count - 1 else so_far)
    if reduction.mean:
        np.divide(into, count, out=into)
