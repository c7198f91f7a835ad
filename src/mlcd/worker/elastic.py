"""The order of the data goes on where it stopped, however many ranks there are now and whatever the batch size.

All epochs' permutations, one after the other, make a tape. The samples that all ranks have seen so far are the place on
it; from there rank r of K takes every K-th. So whatever each rank has done, if it is as much as the others, together they
have done an unbroken part of the tape: no sample of an epoch is lost or seen twice.

    tape      | epoch 0: 3 0 4 1 2 | epoch 1: 1 4 0 2 3 | …
    seen      0 . . . . 4               then 2 ranks:  rank 0 takes 2 (of epoch 0), 4, …   rank 1 takes 1 (of epoch 1), 0, …

An iteration ends with its epoch, or a few samples later so that all ranks have done equally many and, if the batch size is
given, so that the last batch is full. Those samples then are not repeated in the next.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Mapping, Sized
from typing import Any

import mlcd.worker.ranks as ranks
from mlcd.worker.session import current


class ElasticSampler:
    """Gives this rank's indices of a dataset, to a torch DataLoader or to any loop.

        sampler = mlcd.ElasticSampler(dataset, seed=0)
        loader = DataLoader(dataset, batch_size=mlcd.local_batch_size(64), sampler=sampler)
        for epoch in range(sampler.epoch, epochs):
            for batch in mlcd.steps(loader): …

    Under mlcd it starts after the samples of the checkpoint that `mlcd.last_checkpoint()` gave, else after those of
    earlier attempts; elsewhere `load_state_dict` says where. Rank and number of ranks are those of torch.distributed or of
    the environment, unless they are given. A batch size is of all ranks together.

    A loop that is left early goes on, in the next, after the samples that the loader has taken. A loader with workers
    takes more than it has given: then say with `load_state_dict` how many were trained on.
    """

    def __init__(
        self,
        dataset: Sized | int,
        seed: int = 0,
        shuffle: bool = True,
        *,
        batch_size: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        self.size = dataset if isinstance(dataset, int) else len(dataset)
        if self.size < 1:
            raise ValueError("An ElasticSampler needs at least one sample.")
        current().shares = True
        self.seed = seed
        self.shuffle = shuffle
        self.batch_size = batch_size
        self._rank = rank
        self._world_size = world_size
        self._seen: int | None = None  # None: what mlcd says
        self._turn = 0  # of iterations, so that one long left does not move the place of a newer one
        self._order: tuple[int, array[int]] | None = None  # of one epoch

    @property
    def samples_seen(self) -> int:
        """Samples done by all ranks up to the next iteration, over all epochs."""
        return int(current().stop.samples_before) if self._seen is None else self._seen

    @property
    def epoch(self) -> int:
        """The epoch in which the next iteration starts."""
        return self.samples_seen // self.size

    def set_epoch(self, epoch: int) -> None:
        """Skip to this epoch, if it is a later one; what was seen is never seen again."""
        if epoch > self.epoch:
            self._move(epoch * self.size)

    def state_dict(self) -> dict[str, int]:
        """Where the next iteration starts."""
        return {"samples_seen": self.samples_seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after that many samples, counted over all ranks and epochs."""
        self._move(int(state["samples_seen"]))

    def _move(self, seen: int) -> None:
        self._seen = seen
        self._turn += 1

    def __len__(self) -> int:
        """Samples of this rank in the next iteration."""
        return self._rounds(self.samples_seen) * self._per_round() // self.world_size

    def __iter__(self) -> Iterator[int]:
        start, stride, rank = self.samples_seen, self.world_size, self._own_rank()
        count, given = len(self), 0
        turn = self._turn = self._turn + 1
        try:
            while given < count:
                given += 1
                yield self._at(start + (given - 1) * stride + rank)
        finally:
            if turn == self._turn:
                self._seen = start + given * stride

    def _rounds(self, start: int) -> int:
        """How often all ranks take a sample each, or a batch, up to the end of the epoch."""
        left = self.size - start % self.size
        return -(-left // self._per_round())

    def _per_round(self) -> int:
        full_batches = self.batch_size is not None and self.batch_size % self.world_size == 0
        return self.batch_size if self.batch_size and full_batches else self.world_size

    def _at(self, place: int) -> int:
        epoch, offset = divmod(place, self.size)
        if not self.shuffle:
            return offset
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, _permutation(self.size, self.seed, epoch))
        return self._order[1][offset]

    @property
    def world_size(self) -> int:
        """How many ranks share the samples."""
        return ranks.world_size(current().env) if self._world_size is None else self._world_size

    def _own_rank(self) -> int:
        return ranks.rank(current().env) if self._rank is None else self._rank


def _permutation(size: int, seed: int, epoch: int) -> array[int]:
    """The order of an epoch: the same on every rank and in every attempt."""
    order = array("q", range(size))
    random.Random(f"{seed}/{epoch}").shuffle(order)  # noqa: S311  # an order, not a secret
    return order
