"""torch's key-value store on the server that carries the gradients; torch and mlcd.worker keep a few small values in it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed

from mlcd.sync.shm.store import shared_folder
from mlcd.sync.valkey.connection import Connection
from mlcd.sync.valkey.keys import key_root

_dist: Any = torch.distributed  # whose stores are there, though not declared
_Store: Any = _dist.Store
_kept: list[Any] = []  # torch holds on to its own half of a store only
_POLL_S = 0.05  # between two checks for a key that is not there yet
_LIFETIME_S = 7 * 24 * 3600  # of what nobody removes


def shared_store(world_size: int) -> Any:
    """A store of torch that all workers of MLCD_SYNC_URL share, one for each generation."""
    url = os.environ.get("MLCD_SYNC_URL", "")
    generation = os.environ.get("MLCD_SYNC_GENERATION", "0")
    if world_size == 1 or not url:
        return _dist.HashStore()
    if url.startswith("shm://"):
        return _dist.FileStore(str(shared_folder(url.partition("://")[2]) / f"torch-{generation}"), world_size)
    _kept.append(ValkeyKeys(url.partition(",")[0], os.environ.get("MLCD_SYNC_TASK", ""), generation))
    return _kept[-1]


class ValkeyKeys(_Store):  # type: ignore[misc]  # torch has its signatures wrong for subclasses
    """torch's store, on a Redis or Valkey server."""

    def __init__(self, url: str, task: str, generation: str) -> None:
        super().__init__()
        self._server = Connection(url)
        self._lock = threading.Lock()
        self._prefix = f"{key_root(task, 'torch-keys')}:{generation}:"
        self._timeout = timedelta(minutes=30)

    def set(self, key: str, value: Any) -> None:
        self._ask("SET", self._prefix + key, _raw(value), "EX", _LIFETIME_S)

    def get(self, key: str) -> bytes:
        self.wait([key])
        return bytes(self._ask("GET", self._prefix + key) or b"")

    def add(self, key: str, amount: int) -> int:
        total = int(self._ask("INCRBY", self._prefix + key, amount))
        self._ask("EXPIRE", self._prefix + key, _LIFETIME_S)
        return total

    def append(self, key: str, value: Any) -> None:
        self._ask("APPEND", self._prefix + key, _raw(value))
        self._ask("EXPIRE", self._prefix + key, _LIFETIME_S)

    def check(self, keys: Sequence[str]) -> bool:
        return bool(self._ask("EXISTS", *(self._prefix + key for key in keys)) == len(keys))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        until = time.monotonic() + (timeout or self._timeout).total_seconds()
        while not self.check(keys):
            if time.monotonic() > until:
                raise RuntimeError(f"No worker has set {', '.join(keys)}.")
            time.sleep(_POLL_S)

    def delete_key(self, key: str) -> bool:
        return bool(self._ask("DEL", self._prefix + key))

    deleteKey = delete_key  # noqa: N815  # as torch calls it from C++

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    @property
    def timeout(self) -> timedelta:
        return self._timeout

    def _ask(self, *arguments: Any) -> Any:
        with self._lock:
            return self._server.ask(*arguments)


def _raw(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
