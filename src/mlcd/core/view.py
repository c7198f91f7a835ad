"""A job as it is shown: one snapshot of everything, for the command line, the report and the wire."""

from __future__ import annotations

from dataclasses import dataclass

from mlcd.core.goal import Goal
from mlcd.core.job import Job
from mlcd.core.live import Live
from mlcd.core.machines import Deployment
from mlcd.core.progress import MetricPoint, Point
from mlcd.core.records import BillItem, Event, JobRecord, TaskRecord
from mlcd.core.run import Run
from mlcd.core.study import Belief, Ledger
from mlcd.core.task import Owned
from mlcd.core.trial import Trial


@dataclass(frozen=True)
class JobView:
    """How a job stands."""

    record: JobRecord
    goal: Goal  # the limits in force
    spent: Ledger  # since it was submitted, search and training, with what the running task has cost so far
    search: Ledger  # the search's part of it
    trials: tuple[Trial, ...] = ()  # of the search that the plan rests on
    run: Run = Run()
    bill: tuple[BillItem, ...] = ()
    live: Live | None = None
    controlled: bool = False  # a controller is at work on it
    model: str = ""  # the folder with what the training handed back, once it has
    start_seconds: float = 0.0  # from launch to the first step, as the study has it
    waiting_seconds: float = 0.0  # that the plan lay there before the training began
    stopped_seconds: float = 0.0  # that the training lay stopped between two stretches
    later_trials: tuple[Trial, ...] = ()  # made when the job had changed and machines were looked for again

    def work(self, deployment: Deployment) -> float:
        """Samples to train on this deployment; 0: not known."""
        return self.record.samples(deployment)


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


@dataclass(frozen=True)
class Check:
    """What a job would try, before anything is spent."""

    job: Job
    notices: tuple[str, ...]
    space: tuple[Deployment, ...]
    probe_seconds: tuple[float, ...]  # expected, of each deployment of the space
    probe_usd: tuple[float, ...]


@dataclass(frozen=True)
class Stray:
    """Something that costs money and belongs to no job at work."""

    cloud: str
    owned: Owned
    why: str
    ended: bool  # whether it was told to end


@dataclass(frozen=True)
class Finding:
    """Whether one thing that a cloud needs is there, and what to do where it is not."""

    what: str
    ok: bool
    detail: str
    hint: str = ""
