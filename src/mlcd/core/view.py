"""A job as it is shown: one snapshot of everything, for the command line, the report and the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlcd.core.goal import Goal
from mlcd.core.job import Job
from mlcd.core.live import Live
from mlcd.core.machines import Deployment
from mlcd.core.progress import MetricPoint, Point
from mlcd.core.records import BillItem, Event, JobRecord, TaskRecord
from mlcd.core.run import Run
from mlcd.core.study import Belief, Ledger
from mlcd.core.task import Owned, TaskKind
from mlcd.core.trial import Trial
from mlcd.errors import CloudError


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
    live: Live | None = None  # the first of those that run now
    running: tuple[Live, ...] = ()  # every task at work: several probes may run side by side
    controlled: bool = False  # a controller is at work on it
    model: str = ""  # the folder with what the training handed back, once it has
    start_seconds: float = 0.0  # from launch to the first step, as the study has it
    waiting_seconds: float = 0.0  # that the plan lay there before the training began
    stopped_seconds: float = 0.0  # that the training lay stopped between two attempts
    saves: str = ""  # how often it saves and why, in words; empty: as the program wants
    saved_samples: float = 0.0  # in the newest checkpoint: where the training would go on
    later_trials: tuple[Trial, ...] = ()  # made when the job had changed and was replanned

    @property
    def samples_done(self) -> float:
        """Of the whole training, the running attempt included."""
        live = self.live if self.live is not None and self.live.kind is TaskKind.TRAINING else None
        return max(self.run.samples, live.samples if live is not None else 0.0)

    @property
    def at_rest(self) -> bool:
        """Whether nothing happens to the job until somebody acts."""
        return not self.record.needs_controller and not self.controlled

    @property
    def limits_changed(self) -> bool:
        """Whether other limits are in force than those that the plan was made for."""
        planned = self.record.plan.goal if self.record.plan is not None else None
        return planned is not None and planned.limits != self.goal.limits

    @property
    def plan_reason(self) -> str:
        """Why the deployment was chosen; limits that changed since are not those that it speaks of."""
        reason = self.record.plan.reason if self.record.plan is not None else ""
        return f"Planned for other limits: {reason}" if self.limits_changed else reason

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
    ended: bool  # whether the sweep ended it
    needed_elsewhere: bool = False  # or later, perhaps: only `mlcd sweep --others` ends it


@dataclass(frozen=True)
class SweepProblem:
    """Why a cloud could not be asked, or did not end what it should."""

    cloud: str
    message: str
    hint: str = ""


class IncompleteSweepError(CloudError):
    """Some clouds could not be asked, or did not end what they were told to; `strays` is what is known all the same."""

    def __init__(self, strays: Sequence[Stray], problems: Sequence[SweepProblem]) -> None:
        told = " ".join(f"{each.cloud}: {each.message}" for each in problems)
        hints = dict.fromkeys(each.hint for each in problems if each.hint)
        super().__init__(f"The sweep is not complete. {told}", " ".join(hints))
        self.strays = list(strays)
        self.problems = list(problems)


@dataclass(frozen=True)
class Finding:
    """Whether one thing that a cloud needs is there, and what to do where it is not."""

    what: str
    ok: bool
    detail: str
    hint: str = ""
