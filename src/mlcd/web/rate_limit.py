"""Rate limits: a bucket for each key that fills up again with time, and longer and longer waits for who guesses.

Kept by each server process for itself.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from mlcd.errors import TooManyRequestsError

FREE_GUESSES = 5
MOST_WAIT_SECONDS = 900.0
FORGET_SECONDS = 3600.0  # after the last guess
_MOST_KEYS = 100_000  # the ones unused for longest are forgotten first


class RateLimit:
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
            raise TooManyRequestsError("Too many requests.", "Wait a minute and try again.")


class Backoff:
    """Wrong guesses by key: the first few are free, then each doubles the wait for the next."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guesses: OrderedDict[str, tuple[int, float]] = OrderedDict()  # key → wrong so far, last when
        self._lock = threading.Lock()

    def attempt(self, key: str) -> None:
        """Take a guess, which counts as wrong until `right` is called; TooManyRequestsError where it comes too soon."""
        now = self._clock()
        with self._lock:
            wrong, last = self._guesses.get(key, (0, now))
            if now - last > FORGET_SECONDS:
                wrong = 0
            wait = last + _wait_seconds(wrong) - now
            if wait <= 0:
                self._guesses[key] = (wrong + 1, now)
                self._guesses.move_to_end(key)
            while len(self._guesses) > _MOST_KEYS:
                self._guesses.popitem(last=False)
        if wait > 0:
            raise TooManyRequestsError("Too many wrong attempts.", f"Wait {wait:.0f} s and try again.")

    def right(self, key: str) -> None:
        """The guess was right: what was wrong before is forgotten."""
        with self._lock:
            self._guesses.pop(key, None)


def _wait_seconds(wrong: int) -> float:
    return 0.0 if wrong < FREE_GUESSES else min(MOST_WAIT_SECONDS, 2.0 ** (wrong - FREE_GUESSES))


def network_of(address: str) -> str:
    """Whom an address belongs to: of IPv6 everyone has a network of 2⁶⁴ addresses."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if known.version == 6 and known.ipv4_mapped is None:
        return str(ipaddress.ip_network((known, 64), strict=False))
    return str(known.ipv4_mapped or known) if known.version == 6 else str(known)
