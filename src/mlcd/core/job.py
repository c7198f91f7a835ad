"""What the user wants trained. A job is not a process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any

from mlcd.core.goal import Aim
from mlcd.core.notices import Recipient
from mlcd.core.progress import MetricPoint


class Direction(StrEnum):
    """Which way a metric gets better."""

    DOWN = "down"
    UP = "up"


@dataclass(frozen=True)
class Target:
    """A metric that ends the training once it is reached."""

    metric: str
    value: float
    direction: Direction

    def reached(self, value: float) -> bool:
        """Whether the metric has got there."""
        if not isfinite(value):
            return False
        return value <= self.value if self.direction is Direction.DOWN else value >= self.value

    def reached_in(self, metrics: Iterable[MetricPoint]) -> bool:
        """Whether it got there at any time, be it between two looks."""
        return any(point.name == self.metric and self.reached(point.value) for point in metrics)


class OnNan(StrEnum):
    """What becomes of a training whose loss is nan or infinite."""

    WARN = "warn"  # it goes on
    STOP = "stop"  # it is stopped, and the newest checkpoint from before is kept


@dataclass(frozen=True)
class Work:
    """How much training is to be done: samples, or at most so many until a target is reached."""

    samples: float
    dataset_size: int | None = None
    until: Target | None = None


@dataclass(frozen=True)
class NodeRange:
    """The numbers of nodes that may be tried."""

    fewest: int = 1
    most: int = 1


@dataclass(frozen=True)
class BatchSizes:
    """The global batch sizes that may be tried; None: the program decides and is not told."""

    choices: tuple[int, ...] = ()
    accumulate: int = 1  # at most so many backward passes to a step, where a node runs out of memory

    @property
    def fixed(self) -> int | None:
        """The one batch size, where there is just one."""
        return self.choices[0] if len(self.choices) == 1 else None


class Topology(StrEnum):
    """How the nodes exchange what they have learnt."""

    ALLREDUCE = "allreduce"  # every node with every other
    PS = "ps"  # workers with parameter servers, which are nodes as well


class LearningRateRule(StrEnum):
    """How the learning rate follows the batch size; the program asks mlcd.lr_scale()."""

    NONE = "none"
    LINEAR = "linear"  # Goyal et al.
    SQRT = "sqrt"  # Krizhevsky
    ADASCALE = "adascale"  # by the gain that the measured gradient noise allows


@dataclass(frozen=True)
class LearningRate:
    """The rule, and the batch size for which the program's own learning rate was chosen."""

    rule: LearningRateRule = LearningRateRule.NONE
    base_batch_size: int | None = None  # None: the smallest allowed


@dataclass(frozen=True)
class Resources:
    """Which offers may be used. Empty fields ask for nothing."""

    clouds: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    accelerators: tuple[tuple[str, float], ...] = ()  # name, count; any of them
    min_vcpus: float = 0.0
    exact_vcpus: bool = False
    min_memory_gib: float = 0.0
    exact_memory: bool = False
    use_spot: bool | None = None  # None: on demand only
    max_usd_per_hour: float | None = None  # of all nodes together


@dataclass(frozen=True)
class SearchSettings:
    """How to look for the deployment."""

    strategy: str = "auto"
    max_probes: int | None = None
    seed: int = 0
    parallel: int = 1  # probes at once
    learn: bool = True  # from earlier studies of the same program
    kinds: tuple[str, ...] = ("vm",)
    options: dict[str, Any] = field(default_factory=dict)  # the strategy's own


@dataclass(frozen=True)
class ProbeSettings:
    """When a measurement is good enough."""

    interval_share: float = 0.05  # half-width of the 95 % interval ÷ mean
    min_seconds: float = 5.0  # of measuring, after the warm-up
    max_seconds: float = 60.0  # of measuring; an unstable program gets no longer
    warmup_seconds: float = 2.0
    silent_seconds: float = 120.0  # no step for that long: it hangs or never reports

    @property
    def measuring_seconds(self) -> float:
        """Warming up and measuring, if all goes well."""
        return self.warmup_seconds + self.min_seconds


@dataclass(frozen=True)
class CheckpointSettings:
    """How the training's state is kept. The empty path: the program uses mlcd's worker API or has none."""

    path: str = ""  # a folder, relative to the workdir, that the program writes to and resumes from
    keep: int = 2
    carry: bool = True  # a probe goes on from the newest checkpoint, and what it trains counts
    grace_seconds: float = 15.0  # between SIGTERM and SIGKILL
    max_failures: int = 2  # restarts after the program failed
    max_losses: int = 10  # restarts after a node was lost


@dataclass(frozen=True)
class ProgressSettings:
    """How progress is read from the log, where the program does not report by itself."""

    pattern: str = ""  # named groups: step, samples, epoch, or any metric
    hang_seconds: float | None = None  # no step for so long: it hangs; None: by the steps seen; 0: never


@dataclass(frozen=True)
class Job:
    """Program, work to do, allowed deployments and limits."""

    name: str
    run: str
    setup: str = ""
    workdir: str = ""  # absolute; empty: an empty folder
    envs: dict[str, str] = field(default_factory=dict)
    secret_names: tuple[str, ...] = ()  # the values never enter a noun that is stored
    file_mounts: dict[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()  # patterns of the files that make up the model
    platform: str = "command"
    topology: Topology = Topology.ALLREDUCE
    resources: tuple[Resources, ...] = (Resources(),)  # any of them
    nodes: NodeRange = NodeRange()
    batch_sizes: BatchSizes = BatchSizes()
    learning_rate: LearningRate = LearningRate()
    work: Work | None = None
    aim: Aim = Aim.BALANCED
    deadline_seconds: float | None = None  # from submission; a clock time is resolved when it is read
    deadline_at: float | None = None  # seconds since the epoch, where a clock time was given
    budget_usd: float | None = None
    search: SearchSettings = SearchSettings()
    probe: ProbeSettings = ProbeSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    progress: ProgressSettings = ProgressSettings()
    on_nan: OnNan = OnNan.WARN
    elastic: bool = True  # the training may move to another deployment, where it can checkpoint
    cloud: str = "local"
    on_event: tuple[Recipient, ...] = ()  # who is told of what happens to it
