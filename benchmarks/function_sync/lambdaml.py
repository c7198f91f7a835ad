"""LambdaML's way (ScatterReduce): every worker adds one shard of all gradients, and exchange goes through a store.

    1  put one shard for each other worker          UL-shard
    2  get one's own shard from each, and add       DL-shard
    3  put the sum of it                            UL-aggr
    4  get the other sums                           DL-grad

LambdaML does one after the other. Here at its best: shards are put and got at the same time, by several threads, and every
worker begins with the one after it, so that not all turn to the same one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import local
from typing import Protocol

import numpy as np

from mlcd.sync.valkey.connection import Connection
from mlcd_functions.objects.base import ObjectStore
from mlcd_functions.objects.errors import ObjectNotFound

_THREADS = 4  # of each direction
_POLL_SECONDS = 0.005


class Store(Protocol):
    """Where shards wait; `owner` is the worker that adds it, by which several servers share the work."""

    def put(self, owner: int, key: str, data: np.ndarray) -> None: ...

    def get(self, owner: int, key: str) -> bytes | None: ...

    def delete(self, owner: int, key: str) -> None: ...


class Objects:
    """An object store: S3."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def put(self, owner: int, key: str, data: np.ndarray) -> None:
        self._objects.put(key, data.view(np.uint8).data)

    def get(self, owner: int, key: str) -> bytes | None:
        try:
            return self._objects.get(key)
        except ObjectNotFound:
            return None

    def delete(self, owner: int, key: str) -> None:
        self._objects.delete(key)


class Valkeys:
    """Valkey servers, a connection to each for every thread."""

    def __init__(self, urls: tuple[str, ...]) -> None:
        self._urls, self._opened = urls, local()

    def put(self, owner: int, key: str, data: np.ndarray) -> None:
        self._server(owner).ask("SET", key, data.view(np.uint8))

    def get(self, owner: int, key: str) -> bytes | None:
        found: bytes | None = self._server(owner).ask("GET", key)
        return found

    def delete(self, owner: int, key: str) -> None:
        self._server(owner).ask("UNLINK", key)

    def _server(self, owner: int) -> Connection:
        number = owner % len(self._urls)
        opened = self._opened.__dict__
        if number not in opened:
            opened[number] = Connection(self._urls[number])
        connection: Connection = opened[number]
        return connection


class LambdaML:
    """One worker of LambdaML."""

    def __init__(self, store: Store, rank: int, world_size: int) -> None:
        self._store, self._rank, self._world_size = store, rank, world_size
        self._puts, self._gets = ThreadPoolExecutor(_THREADS), ThreadPoolExecutor(_THREADS)
        self._iteration = 0
        self.steps = dict.fromkeys(("UL-shard", "DL-shard", "UL-aggr", "DL-grad"), 0.0)

    def all_reduce(self, gradient: np.ndarray) -> None:
        self._iteration += 1
        shards = np.array_split(gradient, self._world_size)
        sent = [self._puts.submit(self._store.put, each, self._key(each), shards[each]) for each in self._others]
        with self._timed("DL-shard"):
            self._add_to(shards[self._rank])
        with self._timed("UL-shard"):  # what is left of it: most went out while others' shards came in
            for each in sent:
                each.result()
        with self._timed("UL-aggr"):
            self._store.put(self._rank, self._sum_key(self._rank), shards[self._rank])
        with self._timed("DL-grad"):
            self._get_sums(shards)
        self._store.delete(
            self._rank, self._sum_key(self._rank, before=1)
        )  # all have read it, or they would not be here

    def _add_to(self, mine: np.ndarray) -> None:
        """Add the others' shards as they come, and remove them."""
        keys = [self._key(self._rank, each) for each in self._others]
        for found in self._gets.map(lambda key: self._await(self._rank, key, remove=True), keys):
            mine += np.frombuffer(found, mine.dtype)

    def _get_sums(self, shards: list[np.ndarray]) -> None:
        found = self._gets.map(lambda owner: self._await(owner, self._sum_key(owner)), self._others)
        for owner, values in zip(self._others, found, strict=True):
            shards[owner][:] = np.frombuffer(values, shards[owner].dtype)

    def _await(self, owner: int, key: str, remove: bool = False) -> bytes:
        while (found := self._store.get(owner, key)) is None:
            time.sleep(_POLL_SECONDS)
        if remove:
            self._store.delete(owner, key)
        return found

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        began_s = time.perf_counter()
        yield
        self.steps[step] += time.perf_counter() - began_s

    @property
    def _others(self) -> list[int]:
        return [(self._rank + step) % self._world_size for step in range(1, self._world_size)]

    def _key(self, owner: int, sender: int | None = None) -> str:
        return f"shards/{self._iteration}/{owner}/{self._rank if sender is None else sender}"

    def _sum_key(self, owner: int, before: int = 0) -> str:
        return f"sums/{self._iteration - before}/{owner}"
