from __future__ import annotations


class VirtualClock:
    """A clock that jumps ahead instead of waiting."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += max(0.0, seconds)
