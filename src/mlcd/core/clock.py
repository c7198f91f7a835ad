"""The clock that waiting goes by, so that a week of training can be replayed in a second."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time and lets it pass."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Return when that much time has passed on this clock."""


class SystemClock:
    """The time on the wall."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def moment(seconds: float) -> datetime:
    """The moment that many seconds after the epoch, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
