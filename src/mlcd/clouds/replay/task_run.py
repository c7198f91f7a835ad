"""A replayed task: what has become of it at a moment. Pure: nothing runs, so all follows from the record.

PROBE       STARTING for the profiling time less the measuring, then RUNNING until it is stopped
TRAINING    STARTING for the start time, then RUNNING until its samples are done: SUCCEEDED
either      FAILED after starting, where the recording says so; STOPPED when asked, or at its time limit
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlcd.core.machines import Deployment
from mlcd.core.progress import Point, Progress
from mlcd.core.task import Charge, EndCause, TaskKind, TaskState, TaskStatus

RECORDED_FAILURE = "out of memory, or never done: the recording says no more"
_EARLY = 1e-6  # seconds: the last look at a probe must not come a rounding error too soon
_PROBE_POINTS = 40  # while measuring
_TRAINING_POINTS = 200
_RECENT_SECONDS = (45.0, 30.0, 15.0, 0.0)  # before now: enough to tell the speed of late


@dataclass(frozen=True)
class End:
    """How and when a task ends, in seconds after its launch."""

    seconds: float
    state: TaskState
    reason: str = ""
    cause: EndCause | None = None


@dataclass(frozen=True)
class TaskRun:
    """A launched task."""

    task_id: str
    job_id: str
    kind: TaskKind
    deployment: Deployment
    launched_at: float
    start_seconds: float  # until the first step
    samples_per_second: float | None  # None: the recording failed
    samples: float = 0.0  # to do; 0: it goes on until it is stopped
    samples_before: float = 0.0
    measuring_seconds: float = 0.0
    max_seconds: float | None = None
    stopped_at: float | None = None
    checkpoints: str = ""
    checkpoint_kept: bool = False

    @property
    def end(self) -> End | None:
        """The first of its ends; None: it goes on until it is stopped."""
        ends = [
            _failure(self),
            _success(self),
            None if self.stopped_at is None else End(self.stopped_at - self.launched_at, TaskState.STOPPED),
            None
            if self.max_seconds is None
            else End(self.max_seconds, TaskState.STOPPED, "time limit", EndCause.TIME_LIMIT),
        ]
        return min((end for end in ends if end is not None), key=lambda end: end.seconds, default=None)

    def ended(self, now: float) -> End | None:
        """Its end, if it has come."""
        end = self.end
        return end if end is not None and self.launched_at + end.seconds <= now else None

    def samples_done(self, seconds: float) -> float:
        """Samples done that long after the launch."""
        done = max(0.0, seconds - self.start_seconds) * (self.samples_per_second or 0.0)
        return min(done, self.samples) if self.samples and self.kind is TaskKind.TRAINING else done


def status_at(run: TaskRun, now: float) -> TaskStatus:
    """What a cloud would say of the task at that moment."""
    end = run.ended(now)
    seconds = now - run.launched_at if end is None else end.seconds
    runs = seconds >= run.start_seconds - _EARLY
    running_at = run.launched_at + run.start_seconds if runs else None
    state = end.state if end else TaskState.RUNNING if runs else TaskState.STARTING
    return TaskStatus(
        state=state,
        progress=Progress(_points(run, seconds)),
        charges=(
            Charge(f"{run.deployment.nodes} × {run.deployment.offer.name}", seconds, run.deployment.usd(seconds)),
        ),
        started_at=run.launched_at,
        setup_at=running_at,
        running_at=running_at,
        ended_at=None if end is None else run.launched_at + end.seconds,
        exit_code={TaskState.SUCCEEDED: 0, TaskState.FAILED: 1}.get(state),
        reason=end.reason if end else "",
        log_tail=end.reason if end else "",
        cause=end.cause if end else None,
    )


def _failure(run: TaskRun) -> End | None:
    if run.samples_per_second is not None:
        return None
    return End(run.start_seconds, TaskState.FAILED, RECORDED_FAILURE, EndCause.OUT_OF_MEMORY)


def _success(run: TaskRun) -> End | None:
    if run.samples_per_second is None or not run.samples or run.kind is TaskKind.PROBE:
        return None  # a probe lasts until enough was seen
    return End(run.start_seconds + run.samples / run.samples_per_second, TaskState.SUCCEEDED)


def _points(run: TaskRun, seconds: float) -> tuple[Point, ...]:
    """Evenly spaced points, few enough to be made anew at every look."""
    if run.samples_per_second is None:
        return ()
    moments = _probe_moments(run, seconds) if run.kind is TaskKind.PROBE else _training_moments(run, seconds)
    return tuple(_point(run, moment) for moment in moments)


def _point(run: TaskRun, seconds: float) -> Point:
    # A probe's first point is the end of its first step: something has been done by then.
    ahead = _spacing(run) if run.kind is TaskKind.PROBE else 0.0
    samples = run.samples_done(seconds + ahead)
    return Point(seconds, samples / (run.deployment.batch_size or 1), samples)


def _spacing(run: TaskRun) -> float:
    return (run.measuring_seconds or 10.0) / _PROBE_POINTS


def _probe_moments(run: TaskRun, seconds: float) -> list[float]:
    first, spacing = run.start_seconds - _EARLY, _spacing(run)
    count = math.floor((seconds - first) / spacing) + 1 if seconds >= first else 0
    skip = 1 + count // (10 * _PROBE_POINTS)  # one that is left running does not get slower to look at
    return [first + spacing * number for number in range(0, count, skip)]


def _training_moments(run: TaskRun, seconds: float) -> list[float]:
    """A fixed grid over the whole training, the last minute more closely, and this very moment."""
    ran = seconds - run.start_seconds
    whole = run.samples / (run.samples_per_second or 1.0) if run.samples else ran
    grid = [whole * number / _TRAINING_POINTS for number in range(1, _TRAINING_POINTS + 1)]
    recent = [ran - before for before in _RECENT_SECONDS]
    return sorted({run.start_seconds + moment for moment in (*grid, *recent) if 0 < moment <= ran})
