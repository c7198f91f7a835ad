"""The key-value services of TensorFlow and JAX, as far as mlcd uses torch's store: ranks that train together agree through it.

TensorFlow   the coordination service that MultiWorkerMirroredStrategy starts
JAX          the service of jax.distributed.initialize

Both can insert a key that is not there yet, and look one up; a key never changes.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

_LEAST_MS, _MOST_MS = 1, 5  # for a look-up in TensorFlow, which waits so long for a key that is not there
_ROUND_TRIPS = 3  # to its service that a look-up may take
_TRIES = 3  # to measure one
_SURE_MS = 10_000  # for a key that is there
_measured_ms = 0  # that a look-up may take; 0: not measured yet


class ServiceStore:
    """What torch.distributed.Store can, for keys that are set once. Every error is a RuntimeError, as torch's are."""

    def __init__(self, insert: Callable[[str, str], bool], look_up: Callable[[str, bool], str | None]) -> None:
        self._insert = insert  # whether the key was not there
        self._look_up = look_up  # a key's value, None where there is none in time; with True it is there and waited for

    def set(self, key: str, value: str) -> None:
        """Set a key; one that is there stays as it is."""
        self._insert(key, value)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return all(self._look_up(key, False) is not None for key in keys)

    def get(self, key: str) -> bytes:
        """A key's value, which is waited for."""
        return (self._look_up(key, True) or "").encode()

    def add(self, key: str, amount: int) -> int:
        """Count up, by a key for each time; give the count."""
        count = 0
        while self._look_up(f"{key}/{count}", False) is not None:
            count += 1
        while amount > 0:
            amount -= self._insert(f"{key}/{count}", "1")
            count += 1
        return count

    def compare_set(self, key: str, expected: str, value: str) -> bytes:
        """Set a key that is not there; give what it has then."""
        self._insert(key, value)
        return self.get(key)


def service_store() -> ServiceStore | None:
    """Of the framework whose ranks this process is one of; None: of neither."""
    return _of_jax() or _of_tensorflow()


def _of_tensorflow() -> ServiceStore | None:
    module: Any = sys.modules.get("tensorflow.python.eager.context")
    context: Any = getattr(module, "_context", None)  # the one there is; asking for it by context() would make one
    if getattr(context, "coordination_service", None) is None:
        return None
    errors: Any = sys.modules["tensorflow"].errors

    def insert(key: str, value: str) -> bool:
        try:
            context.set_config_key_value(key, value)
        except errors.AlreadyExistsError:
            return False
        except errors.OpError as error:
            raise RuntimeError(str(error)) from error
        return True

    def look_up(key: str, there: bool) -> str | None:
        try:
            return str(context.get_config_key_value(key, _SURE_MS if there else _patience_ms(insert, context)))
        except (errors.DeadlineExceededError, errors.NotFoundError):
            return None
        except errors.OpError as error:
            raise RuntimeError(str(error)) from error

    return ServiceStore(insert, look_up)


def _patience_ms(insert: Callable[[str, str], bool], context: Any) -> int:
    """For a look-up: some round trips to TensorFlow's service, measured with a key of our own."""
    global _measured_ms
    if not _measured_ms:
        key = f"mlcd/round-trip/{uuid4().hex}"
        insert(key, "1")
        trips = [_seconds(lambda: context.get_config_key_value(key, _SURE_MS)) for _ in range(_TRIES)]
        _measured_ms = max(_LEAST_MS, min(_MOST_MS, math.ceil(_ROUND_TRIPS * 1000.0 * min(trips))))
    return _measured_ms


def _seconds(call: Callable[[], Any]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def _of_jax() -> ServiceStore | None:
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    client = getattr(state, "client", None)
    if client is None or not hasattr(client, "key_value_try_get"):
        return None

    def insert(key: str, value: str) -> bool:
        try:
            client.key_value_set(key, value)
        except RuntimeError as error:
            if "ALREADY_EXISTS" in str(error):
                return False
            raise
        return True

    def look_up(key: str, there: bool) -> str | None:
        try:
            return str(client.key_value_try_get(key))
        except RuntimeError as error:
            if "NOT_FOUND" in str(error):
                return None
            raise

    return ServiceStore(insert, look_up)
