"""How long what fails for a moment is tried again: it ends when nothing went well for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 60.0


class RetryLimit:
    """Counts from the first failure after the last success."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None

    def ends(self) -> bool:
        """Take note of a failure; whether it has failed for too long by now."""
        self._since = self._clock() if self._since is None else self._since
        return self._clock() - self._since > SECONDS

    def renew(self) -> None:
        """Take note that all went well."""
        self._since = None
