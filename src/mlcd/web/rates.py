"""Rate limits: a bucket for each key that fills up again with time. Kept by each server process for itself."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from mlcd.errors import TooManyRequestsError

_MOST_KEYS = 100_000  # the ones unused for longest are forgotten first


class Rate:
    """So many a minute for each key, all of them at once if need be."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # key → left, as of then
        self._lock = threading.Lock()

    def take(self, key: str) -> None:
        """One of them; TooManyRequestsError if none is left."""
        now = self._clock()
        with self._lock:
            left, then = self._left.pop(key, (self._most, now))
            left = min(self._most, left + (now - then) * self._most / 60.0)
            self._left[key] = (left - 1.0 if left >= 1.0 else left, now)
            while len(self._left) > _MOST_KEYS:
                self._left.popitem(last=False)
        if left < 1.0:
            raise TooManyRequestsError("That was too often.", "Wait a minute and try again.")
