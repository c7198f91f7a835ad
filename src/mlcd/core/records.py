"""What the store keeps: nouns with the facts about them that change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlcd.core.conditions import Change, Conditions
from mlcd.core.job import Job
from mlcd.core.machines import Deployment, Offer
from mlcd.core.plan import Plan
from mlcd.core.run import JobState
from mlcd.core.task import TaskKind


@dataclass(frozen=True)
class Controller:
    """The process that drives a job now."""

    token: str
    host: str  # with its boot
    pid: int
    born_at: float  # seconds after the boot when that process began: no reused pid is mistaken for it
    beat_at: float  # when it was last heard of


@dataclass(frozen=True)
class JobRecord:
    """A job and how it stands."""

    id: str
    job: Job
    state: JobState
    submitted_at: float
    cloud: str
    cloud_options: dict[str, str] = field(default_factory=dict)
    owner: str = ""  # the account that submitted it; empty: whoever uses this computer
    budget_usd: float | None = None  # in force now; resume may raise it
    deadline_at: float | None = None  # likewise, seconds since the epoch on the cloud's clock
    started: bool = True  # somebody asked for its search to begin; before that nothing moves it
    confirmed: bool = False  # the plan was accepted: train without asking
    stop_asked: bool = False
    move_asked: Deployment | None = None  # by the user: where the training is to go on
    plan: Plan | None = None
    moved_to: Deployment | None = None  # where the training runs now, if it left the planned deployment
    moved_by_user: bool = False  # where it runs now is the user's choice
    offers: tuple[Offer, ...] = ()  # the space is made of these, so that a resumed search sees the same
    samples_at: dict[int, float] = field(default_factory=dict)  # batch size → samples, where it matters
    samples_spread: dict[int, float] = field(default_factory=dict)  # standard deviation of their logarithm; else 0
    start_seconds: float | None = None  # launch to first step as the cloud knows it; None: see the probes
    code: str = ""  # digest of the program's folder when the search began
    learnt: dict[str, Any] = field(default_factory=dict)  # its models for later jobs, see forecast.stored
    learnt_from: tuple[str, ...] = ()  # earlier jobs that its search looks at
    fixes: int = 0  # times that the program or the cloud was fixed: faults of trials before count no more
    # Deployment → as the training began there.
    conditions: dict[str, Conditions] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()  # for which it was replanned
    error: str = ""
    enough_seconds: float | None = None  # a deadline that would do, where none can keep the one in force
    enough_usd: float | None = None  # a budget, likewise
    exit_code: int = 0  # of the command that waits for this job, see mlcd.errors
    ended_at: float | None = None
    controller: Controller | None = None
    virtual_clock: bool = False  # it lives on a clock that jumps, not the one on the wall

    @property
    def deployment(self) -> Deployment:
        """What the training is to run on now."""
        if self.plan is None:
            raise ValueError(f"job {self.id} has no plan yet")
        return self.moved_to or self.plan.deployment

    @property
    def needs_controller(self) -> bool:
        """Whether a controller has something to do for this job."""
        waits = self.state is JobState.PLANNED and (self.confirmed or self.stop_asked)
        return self.started and (self.state.active or waits)

    @property
    def replanning(self) -> bool:
        """Whether the training rests while other machines are tried."""
        return bool(self.changes) and self.changes[-1].gain is None

    @property
    def search_number(self) -> int:
        """Which search is the newest: 0 led to the plan, and each replanning is one more."""
        return len(self.changes)

    @property
    def changed_at(self) -> float:
        """When it last changed; speeds of the training before that hold no more."""
        return self.changes[-1].at if self.changes else float("-inf")

    def samples(self, deployment: Deployment) -> float:
        """How much is to be trained on this deployment; 0: not known."""
        samples = self.job.work.samples if self.job.work else 0.0
        return self.samples_at.get(deployment.batch_size or 0, samples)


@dataclass(frozen=True)
class TaskRecord:
    """A task that may cost money: written before it is launched."""

    id: str
    job_id: str
    kind: TaskKind
    number: int  # of its kind within the job, from 1
    deployment: Deployment
    cloud: str
    intended_at: float
    carries: bool = False  # a probe that goes on from the job's checkpoint and leaves one: its steps are training
    handle: str | None = None  # None: launch has not answered yet
    ended_at: float | None = None  # None: it may still run


@dataclass(frozen=True)
class Event:
    """Something worth telling, in order."""

    number: int
    job_id: str
    at: float
    kind: str  # "probe", "trial", "plan", "attempt", "progress", "decision", "state", "warning", "notice"
    message: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BillItem:
    """A line of the bill with what it was for."""

    task_id: str
    kind: TaskKind
    what: str
    seconds: float
    usd: float
