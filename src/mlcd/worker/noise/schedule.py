"""Which steps the gradient noise is measured at: often enough to learn, seldom enough not to be felt."""

from __future__ import annotations

import statistics
from collections import deque

_SHARE = 0.015  # of the training's time that measuring may take; what is promised is 2 %
_FIRST_STEP = 8
MOST_INTERVAL = 1024
OPENING_READINGS = 32  # a few more than it takes to see that the noise is stable
OPENING_SECONDS = 12.0  # at the most; a probe measures the speed only after that
_OPENING_STEP = 3
_OPENING_PACE = 0.3  # seconds of a step: slower ones would not get far enough in that time


class Schedule:
    """Every so many steps, where the interval is a power of two that follows what measuring is seen to cost.

    It opens with a few steps in a row, once in a process, so that a short training or a probe learns its noise too.

    Ranks time themselves and may come to different intervals; since all are powers of two, those who measure seldom do
    so at steps at which the others do as well.
    """

    def __init__(self) -> None:
        self.interval = _FIRST_STEP
        self._least = _FIRST_STEP
        self._plain: deque[float] = deque(maxlen=33)  # seconds of a step
        self._measured: deque[float] = deque(maxlen=5)
        self._warm = False
        self._opening = OPENING_READINGS  # readings left of it
        self._opening_seconds = OPENING_SECONDS

    def due(self, step: int) -> bool:
        """Whether to measure at this step."""
        if self._opening > 0 and step >= _OPENING_STEP:
            return True
        return step >= _FIRST_STEP and step % self.interval == 0

    def took(self, seconds: float, measured: bool) -> None:
        """A step has taken that long."""
        self._open(seconds, measured)
        if not measured:
            self._plain.append(seconds)
        elif self._warm:
            self._measured.append(seconds)
            self._adapt()
        else:
            self._warm = True  # the first time pays for what is set up once

    def at_least(self, interval: int) -> None:
        """This way of measuring is known to cost more than a clock beside an asynchronous device may see."""
        self._least = interval
        self._adapt()

    def rest(self) -> None:
        """There was nothing to measure: look less often."""
        self._opening = 0
        self.interval = min(MOST_INTERVAL, 2 * self.interval)

    def _open(self, seconds: float, measured: bool) -> None:
        """Count down what is left of the opening, by readings and by time; a program of slow steps has none."""
        self._opening_seconds -= seconds
        too_slow = not measured and seconds > _OPENING_PACE
        self._opening = 0 if too_slow or self._opening_seconds <= 0 else max(0, self._opening - measured)

    def _adapt(self) -> None:
        interval = self._least
        if self._measured and self._plain:
            step = statistics.median(self._plain)
            wanted = (statistics.median(self._measured) - step) / (_SHARE * step) if step > 0 else 0.0
            while interval < min(wanted, MOST_INTERVAL):
                interval *= 2
        self.interval = interval
