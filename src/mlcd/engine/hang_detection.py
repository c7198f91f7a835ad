"""When a training makes no step any more: since when, whether that is unusual, and when it counts as hung.

    limit = max(probe.silent_seconds, 3 × longest pause between two steps that the job has shown)

or what `progress.hang_seconds` says. The longest pause includes validations, saving and the time to the first step. The time
before the first step gets three times the limit, without other signs of life (new lines in the log, new reports, batches for a
validation); a pause with such signs and the end of the work get ten times the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mlcd.core.job import Job
from mlcd.core.progress import Point
from mlcd.core.task import Task, TaskState, TaskStatus

PAUSE_FACTOR = 3.0
START_FACTOR = 3.0
PATIENT_FACTOR = 10.0
LEAST_UNUSUAL_SECONDS = 10.0
UNUSUAL_FACTOR = 3.0
USUAL_STEPS = 20  # the newest, of which the usual pause is the mean
NEARLY_DONE = 0.98  # of the work: the program may be evaluating or saving for the last time


class ActivityTracker:
    """Remembers when a task last showed anything new: a report, or a line in its log."""

    def __init__(self, now: float) -> None:
        self._seen: object = None
        self._at = now

    def silent_seconds(self, status: TaskStatus, now: float) -> float:
        """How long there has been nothing new."""
        points, metrics = status.progress.points, status.progress.metrics
        seen = (points[-1:], metrics[-1:], status.log_tail)
        if seen != self._seen:
            self._seen, self._at = seen, now
        return now - self._at


def hang_limit(job: Job, longest_pause_seconds: float) -> float | None:
    """Seconds without a step after which a training counts as hung; None: it never does."""
    asked = job.progress.hang_seconds
    if asked is not None:
        return asked or None
    return max(job.probe.silent_seconds, PAUSE_FACTOR * longest_pause_seconds)


def is_hung(task: Task, status: TaskStatus, now: float, silent_seconds: float, limit_seconds: float | None) -> bool:
    """Whether a running program has made no step for too long."""
    if limit_seconds is None or status.state is not TaskState.RUNNING:
        return False
    pause = no_step_seconds(status, now)
    if not _step_moments(status.progress.points):
        return min(pause, silent_seconds) > START_FACTOR * limit_seconds
    if pause > PATIENT_FACTOR * limit_seconds:
        return True
    nearly_done = 0 < NEARLY_DONE * task.samples <= status.progress.samples
    return not nearly_done and min(pause, silent_seconds) > limit_seconds


def no_step_seconds(status: TaskStatus, now: float) -> float:
    """Since the newest step, or since the program began while there was none."""
    if status.started_at is None or status.running_at is None:
        return 0.0
    moments = _step_moments(status.progress.points)
    last = status.started_at + moments[-1] if moments else status.running_at
    return max(0.0, now - last)


def unusual_pause(status: TaskStatus, now: float) -> float:
    """Seconds without a step where that is longer than usual; 0: steps come, or none was to be expected yet."""
    moments = _step_moments(status.progress.points)
    if not moments or status.state is not TaskState.RUNNING:
        return 0.0
    newest = moments[-USUAL_STEPS:]
    usual = (newest[-1] - newest[0]) / (len(newest) - 1) if len(newest) > 1 else longest_pause(status, -1.0)
    pause = no_step_seconds(status, now)
    return pause if pause > max(LEAST_UNUSUAL_SECONDS, UNUSUAL_FACTOR * usual) else 0.0


def longest_pause(status: TaskStatus, after_seconds: float) -> float:
    """The longest time between two steps that ended after that moment of the task, and before its first step."""
    if status.started_at is None or status.running_at is None:
        return 0.0
    moments = [max(0.0, status.running_at - status.started_at), *_step_moments(status.progress.points)]
    return max((later - earlier for earlier, later in pairwise(moments) if later > after_seconds), default=0.0)


def _step_moments(points: Sequence[Point]) -> list[float]:
    """The seconds at which more had been done than at the point before."""
    moments, most = [], 0.0
    for point in points:
        if point.samples > most:
            moments.append(point.seconds)
            most = point.samples
    return moments
