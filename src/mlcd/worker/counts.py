"""Steps and samples done by this process, from whoever counts them best.

Up to three sources count at once; the first of these that has something to say is believed, so nothing counts twice:

    1  report(samples=…)                    the program says so itself
    2  steps(loader), the Trainer callback  a loop that mlcd sees
    3  the optimizer's hook                 nothing to change in the program
    4  report(step=…)                       steps × the local batch size
"""

from __future__ import annotations

import time
from typing import NamedTuple


class Count(NamedTuple):
    """Steps and samples at a moment; replaced whole, so that another thread never sees half of a step."""

    t: float
    steps: int
    samples: float


_count = tuple.__new__  # what Count(…) does, without the call in between
NOTHING = Count(0.0, 0, 0.0)


class Counts:
    """What was counted. The hot path is one of the first two methods."""

    def __init__(self, local_batch_size: int = 0) -> None:
        self.local_batch_size = local_batch_size
        self.loop: Count | None = None
        self.hooked: Count | None = None
        self.told: Count | None = None
        self.told_samples = False
        self.in_flight = 0.0  # samples of the batch that the loop is busy with
        self.first_at = 0.0

    def add_loop(self, steps: int, samples: float) -> None:
        """A loop that mlcd sees has done that much more."""
        _, done_steps, done_samples = self.loop or self._begin()
        self.loop = _count(Count, (time.time(), done_steps + steps, done_samples + samples))
        self.in_flight = 0.0

    def set_hooked(self, steps: int, samples: float) -> None:
        """The optimizer's hook has counted that much so far."""
        if self.hooked is None:
            self._begin()
        self.hooked = _count(Count, (time.time(), steps, samples))

    def tell(self, step: float | None, samples: float | None) -> None:
        """The program says how much this process has done so far."""
        _, told_steps, told_samples = self.told or self._begin()
        grown = samples is not None and samples > told_samples  # samples without a number: a step, at least
        steps = told_steps + grown if step is None else max(told_steps, int(step))
        if samples is not None:
            self.told_samples = True
        self.told = Count(time.time(), steps, max(told_samples, samples or 0.0))

    def _begin(self) -> Count:
        self.first_at = self.first_at or time.time()
        return NOTHING

    @property
    def now(self) -> Count:
        """The best count there is."""
        told, loop, hooked = self.told, self.loop, self.hooked
        if told and self.told_samples:
            return told._replace(steps=max(told.steps, (loop or hooked or NOTHING).steps))
        if loop:
            return loop
        if hooked:
            return hooked
        return told._replace(samples=told.steps * max(1, self.local_batch_size)) if told else NOTHING

    @property
    def steps_per_second(self) -> float:
        """The pace since the first step; 0: not known."""
        t, steps, _ = self.now
        return steps / (t - self.first_at) if t > self.first_at else 0.0
