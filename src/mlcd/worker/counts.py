"""Steps and samples done by this process, from the best of several sources.

Several sources may count at once; the first of these that has counted anything is used, so nothing counts twice:

    1  report(samples=…)                    the program says so itself
    2  steps(loader), the Trainer callback  a loop that mlcd sees
    3  the optimizer's hook                 nothing to change in the program
    4  report(step=…)                       steps × the local batch size
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple


class Count(NamedTuple):
    """Steps and samples at a moment; replaced whole, so that another thread never sees half of a step."""

    t: float
    steps: int
    samples: float


_count = tuple.__new__  # what Count(…) does, without the call in between
NOTHING = Count(0.0, 0, 0.0)
_LATE_TICKS = 10  # by which a file's time may lie before a save that was seen to begin
_COARSE_CLOCK = 5  # CLOCK_REALTIME_COARSE of Linux, by which files are stamped


class Counts:
    """What was counted. The hot path is one of the first two methods."""

    def __init__(self, local_batch_size: int = 0, remember: int = 0) -> None:
        self.local_batch_size = local_batch_size
        self._remember = remember  # so many counts of each source; 0: none
        self._loop_past: deque[Count] = deque(maxlen=remember)
        self._hooked_past: deque[Count] = deque(maxlen=remember)
        self._reported_past: deque[Count] = deque(maxlen=remember)
        self._marked: Count | None = None  # when the program last began to save
        self.loop: Count | None = None
        self.hooked: Count | None = None
        self.reported: Count | None = None
        self.reports_samples = False
        self.in_flight = 0.0  # samples of the batch that the loop is busy with
        self.first_at = 0.0
        self._first_steps = 0  # as many as the first count had: a program may report those of earlier runs, too

    def add_loop(self, steps: int, samples: float) -> None:
        """A loop that mlcd sees has done that much more."""
        _, done_steps, done_samples = self.loop or self._begin(steps)
        self.loop = _count(Count, (time.time(), done_steps + steps, done_samples + samples))
        self.in_flight = 0.0
        self._loop_past.append(self.loop)

    def begin_batch(self, samples: float) -> None:
        """The loop's body has got a batch: what it saves from now on holds that batch, too."""
        self.in_flight = samples
        if self._remember:
            _, steps, done = self.loop or NOTHING
            self._loop_past.append(_count(Count, (time.time(), steps + 1, done + samples)))

    def set_hooked(self, steps: int, samples: float, since: float | None = None) -> None:
        """The optimizer's hook has counted that much so far; it may learn of a step some time after it was done."""
        if self.hooked is None:
            self._begin(steps)
        self.hooked = _count(Count, (time.time(), steps, samples))
        self._hooked_past.append(self.hooked if since is None else self.hooked._replace(t=since))

    def report(self, step: float | None, samples: float | None) -> None:
        """The program reports how much this process has done so far."""
        _, done_steps, done_samples = self.reported or self._begin(1 if step is None else int(step))
        # Samples without a step number: at least one step.
        grown = samples is not None and samples > done_samples
        steps = done_steps + grown if step is None else max(done_steps, int(step))
        if samples is not None:
            self.reports_samples = True
        self.reported = Count(time.time(), steps, max(done_samples, samples or 0.0))
        self._reported_past.append(self.reported)

    def _begin(self, steps: int) -> Count:
        if not self.first_at:
            self.first_at, self._first_steps = time.time(), steps
        return NOTHING

    @property
    def now(self) -> Count:
        """The best count there is."""
        reported, loop, hooked = self.reported, self.loop, self.hooked
        if reported and self.reports_samples:
            return reported._replace(steps=max(reported.steps, (loop or hooked or NOTHING).steps))
        return loop or hooked or self._with_samples(reported or NOTHING)

    def at(self, changed_at: float) -> Count | None:
        """The best count when a file was last changed; None: that is longer ago than is remembered."""
        past = self._past()
        if past and len(past) == self._remember and changed_at < past[0].t:
            return None
        return _when_saved(past, changed_at, time.time(), self._marked)

    def mark_save(self) -> None:
        """The program begins to save right now: of the counts that may be meant later, it is this one."""
        past = (
            self._reported_past if self.reports_samples else self._loop_past or self._hooked_past or self._reported_past
        )
        self._marked = past[-1] if past else None

    def _past(self) -> list[Count]:
        """The counts that are remembered, of the source that is believed."""
        if self.reports_samples:
            return list(self._reported_past)
        seen = list(self._loop_past) or list(self._hooked_past)
        return seen or [self._with_samples(count) for count in list(self._reported_past)]

    def _with_samples(self, count: Count) -> Count:
        return count._replace(samples=count.steps * max(1, self.local_batch_size))

    @property
    def steps_per_second(self) -> float:
        """The pace since the first step; 0: not known, as long as there was one only."""
        t, steps, _ = self.now
        return max(0, steps - self._first_steps) / (t - self.first_at) if t > self.first_at else 0.0


def _file_clock_seconds() -> float:
    """How far the time of a file's change may lie before the change itself."""
    try:
        return time.clock_getres(_COARSE_CLOCK)
    except (OSError, AttributeError):
        return 0.01


def _when_saved(past: Sequence[Count], changed_at: float, now: float, marked: Count | None) -> Count:
    """The count while a file was written.

    The file's clock is coarse and behind, on a virtual machine by several ticks. Of the counts that may be meant, the one at
    which the program was seen to save is taken, or else the one before the longest pause: that has a step and a save in it.
    """
    times = [count.t for count in past]
    tick = _file_clock_seconds()
    first = bisect_right(times, changed_at)
    last, latest = (bisect_right(times, changed_at + late * tick) for late in (1, _LATE_TICKS))
    ends = [*times[first:last], times[last] if last < len(times) else now]
    if marked is not None and any(count.t == marked.t for count in past[max(0, first - 1) : latest]):
        return next(count for count in past if count.t == marked.t)
    starts = [times[first - 1] if first else 0.0, *times[first:last]]
    pauses = [end - start for start, end in zip(starts, ends)]  # noqa: B905  # Python 3.9
    place = first - 1 + pauses.index(max(pauses))
    return past[place] if place >= 0 else NOTHING
