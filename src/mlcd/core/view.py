"""A job as it is shown: one snapshot of everything, for the command line, the report and the wire."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlcd.core.goal import Goal
from mlcd.core.machines import Deployment
from mlcd.core.progress import MetricPoint, Point, Usage
from mlcd.core.records import BillItem, Event, JobRecord, TaskRecord
from mlcd.core.run import Run
from mlcd.core.study import Belief, Ledger
from mlcd.core.task import TaskKind, TaskState
from mlcd.core.trial import Trial


@dataclass(frozen=True)
class Live:
    """The task that runs now."""

    task_id: str
    kind: TaskKind
    state: TaskState
    deployment: Deployment
    seconds: float  # since it was launched
    usd: float
    samples: float  # of the whole job, earlier attempts included
    samples_per_second: float  # lately; 0: nothing seen yet
    left_seconds: float | None  # until the training is done, if it goes on like this
    total_seconds: float | None  # of the whole job, search included, if it goes on like this
    total_usd: float | None
    metrics: dict[str, float] = field(default_factory=dict)  # newest values
    usage: Usage = Usage()


@dataclass(frozen=True)
class JobView:
    """How a job stands."""

    record: JobRecord
    goal: Goal  # the limits in force
    spent: Ledger  # since it was submitted, search and training
    search: Ledger  # the search's part of it
    trials: tuple[Trial, ...] = ()
    run: Run = Run()
    bill: tuple[BillItem, ...] = ()
    live: Live | None = None
    controlled: bool = False  # a controller is at work on it
    model: str = ""  # the folder with what the training handed back, once it has


@dataclass(frozen=True)
class JobStory:
    """A job with all that a report tells of it."""

    view: JobView
    tasks: tuple[TaskRecord, ...] = ()
    events: tuple[Event, ...] = ()
    space: tuple[Deployment, ...] = ()
    beliefs: tuple[tuple[Belief, ...], ...] = ()  # after each trial, in order
    points: tuple[Point, ...] = ()  # of the training, all attempts in one line
    metrics: tuple[MetricPoint, ...] = ()
    log_tail: str = ""
