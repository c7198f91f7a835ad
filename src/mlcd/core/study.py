"""All that a searcher may see: the goal, the space, what was tried and what it cost. Immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil

from mlcd.core.goal import Goal
from mlcd.core.losses import slowdown
from mlcd.core.machines import Deployment
from mlcd.core.trial import Trial


@dataclass(frozen=True)
class ProbeTime:
    """How long a probe is expected to take.

    The defaults are the paper's (section V.A): ten minutes for one node, one more for every three
    further nodes.
    """

    first_seconds: float = 600.0
    step_seconds: float = 60.0
    nodes_per_step: int = 3
    several_seconds: float = 0.0  # on top for several nodes, which need something before they begin: a parameter store

    def seconds(self, nodes: int) -> float:
        """Of a probe on that many nodes."""
        several = self.several_seconds if nodes > 1 else 0.0
        return self.first_seconds + self.step_seconds * ceil((nodes - 1) / self.nodes_per_step) + several


@dataclass(frozen=True)
class Ledger:
    """Time and money spent since the job was submitted."""

    seconds: float = 0.0
    usd: float = 0.0


@dataclass(frozen=True)
class EarlierJob:
    """What an earlier job of the same owner showed, for strategies that reuse its models."""

    name: str
    trials: tuple[Trial, ...]
    likeness: str = ""  # in which way its program is the same or similar; empty: another program


@dataclass(frozen=True)
class WorkerBandwidth:
    """What one worker received from parameter servers, measured by an earlier job of the same program."""

    instance: str  # the worker's type
    batch_size: int | None  # its own
    server_gbps: float  # of the servers' type; 0: not known
    mbps: float
    job_id: str  # which measured it


@dataclass(frozen=True)
class Study:
    """A search so far."""

    goal: Goal
    space: tuple[Deployment, ...]
    samples: float  # to train in all
    trials: tuple[Trial, ...] = ()
    spent: Ledger = Ledger()
    probe_time: ProbeTime = ProbeTime()
    start_seconds: float = 0.0  # from launch to first step of the training
    probe_training_share: float = 0.0  # of a probe's time: trains for good, carried on by checkpoints
    samples_at: Mapping[int, float] = field(default_factory=dict)  # batch size → samples, where it matters
    samples_spread: Mapping[int, float] = field(default_factory=dict)  # standard deviation of their logarithm; else 0
    pending: tuple[Deployment, ...] = ()  # being tried now
    earlier: tuple[tuple[Trial, ...], ...] = ()  # trials of earlier studies of the same or similar jobs
    other_jobs: tuple[EarlierJob, ...] = ()  # newest first; those that `earlier` has among them
    bandwidths: tuple[WorkerBandwidth, ...] = ()  # newest first
    seed: int = 0
    max_probes: int | None = None

    def with_trial(self, trial: Trial) -> Study:
        """This study after one more trial, its cost included."""
        spent = Ledger(self.spent.seconds + trial.seconds, self.spent.usd + trial.usd)
        return replace(self, trials=(*self.trials, trial), spent=spent)

    def work(self, deployment: Deployment) -> float:
        """Samples to train on this deployment."""
        if deployment.batch_size is None:
            return self.samples
        return self.samples_at.get(deployment.batch_size, self.samples)

    def probe_seconds(self, deployment: Deployment) -> float:
        """Expected time of trying this deployment."""
        return self.probe_time.seconds(deployment.nodes)

    def probe_usd(self, deployment: Deployment) -> float:
        """Expected cost of trying this deployment."""
        return deployment.rental_usd(self.probe_seconds(deployment))

    def training_seconds(self, deployment: Deployment, samples_per_second: float) -> float:
        """Time of the whole training at that speed, machines that are taken back or started anew included."""
        return self.rented_seconds(deployment, self.work(deployment) / samples_per_second)

    def rented_seconds(self, deployment: Deployment, working_seconds: float) -> float:
        """Time of a training that works for so long, with its start, and again after machines were lost or started anew."""
        lifetime = deployment.offer.lifetime_seconds
        return self.start_seconds + self.slowdown(deployment.losses_per_hour, lifetime) * working_seconds

    def slowdown(self, losses_per_hour: float, lifetime_seconds: float = 0.0) -> float:
        """How many times longer a training takes on machines that are taken back so often, or live so long only."""
        return slowdown(losses_per_hour, self.start_seconds, lifetime_seconds=lifetime_seconds)

    def total(self, deployment: Deployment, samples_per_second: float) -> Ledger:
        """Time and money of the whole job if the training started now at that speed."""
        seconds = self.training_seconds(deployment, samples_per_second)
        return Ledger(self.spent.seconds + seconds, self.spent.usd + deployment.rental_usd(seconds))

    @property
    def tried(self) -> frozenset[Deployment]:
        """What was tried or is being tried."""
        return frozenset(trial.deployment for trial in self.trials) | frozenset(self.pending)

    @property
    def probes_left(self) -> bool:
        """Whether the user's cap on probes allows another one."""
        return self.max_probes is None or len(self.trials) + len(self.pending) < self.max_probes


@dataclass(frozen=True)
class Stop:
    """The search is over: what to train on, and why to look no further."""

    choice: Deployment | None  # None: nothing tried can keep the limits
    reason: str


@dataclass(frozen=True)
class Belief:
    """What a searcher expects of a deployment: mean and 95 % band of its throughput."""

    deployment: Deployment
    samples_per_second: float
    low: float
    high: float
    modelled: bool = False  # by the job's performance models, which every strategy shares
