"""What the user wants trained. A job is not a process.

Each field carries its key in the job file (see core/keys.py): this page is the one definition of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any

from mlcd.core.goal import Aim
from mlcd.core.keys import Key
from mlcd.core.notices import Recipient
from mlcd.core.progress import MetricPoint


class Direction(StrEnum):
    """Which way a metric gets better."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True)
class Target:
    """A metric that ends the training once it is reached."""

    metric: Annotated[str, Key("the training ends when this metric, reported or read from the log,", "name")]
    value: Annotated[float, Key("has reached this value", "any number")]
    direction: Annotated[Direction, Key("which way is better", "`up` or `down`", default="by the metric's name")]

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

    samples: Annotated[
        float,
        Key("samples to train in all; with `until`, at most", "number", default="none"),
        Key("instead of `samples`; needs `dataset_size`", "number", "epochs", "none"),
    ]
    dataset_size: Annotated[int | None, Key("samples in one epoch", "whole number")] = None
    until: Annotated[Target | None, Key()] = None


@dataclass(frozen=True)
class NodeRange:
    """The numbers of nodes that may be tried."""

    fewest: int = 1
    most: int = 1


@dataclass(frozen=True)
class BatchSizes:
    """The global batch sizes that may be tried; none: the program decides."""

    choices: Annotated[
        tuple[int, ...],
        Key("global, over all nodes", "number, list or range", "sizes", "the program's own", short="32..512"),
    ] = ()
    accumulate: Annotated[int, Key("most backward passes to a step, to save memory", "whole number")] = 1

    @property
    def fixed(self) -> int | None:
        """The one batch size, where there is just one."""
        return self.choices[0] if len(self.choices) == 1 else None


class Topology(StrEnum):
    """How the nodes exchange what they have learnt."""

    ALLREDUCE = "allreduce"  # every node with every other
    PS = "ps"  # workers with parameter servers, which are nodes as well


@dataclass(frozen=True)
class Servers:
    """The parameter servers that may be used, which need not be of the workers' type."""

    instance_types: Annotated[
        tuple[str, ...],
        Key(
            "of the parameter servers; with `servers` the topology is `ps`",
            "name or list",
            "instance_type",
            "[fast enough for the price](#parameter-servers)",
            short="c5n.large",
        ),
    ] = ()
    counts: Annotated[
        tuple[int, ...],
        Key("how many of the nodes serve", "whole number, list or range", "count", "`1`"),
    ] = (1,)


class LearningRateRule(StrEnum):
    """How the learning rate follows the batch size; the program asks mlcd.lr_scale()."""

    NONE = "none"
    LINEAR = "linear"  # Goyal et al.
    SQRT = "sqrt"  # Krizhevsky
    ADASCALE = "adascale"  # by the gain that the measured gradient noise allows


@dataclass(frozen=True)
class LearningRate:
    """The rule, and the batch size for which the program's own learning rate was chosen."""

    rule: Annotated[LearningRateRule, Key("what `mlcd.lr_scale()` follows", short="sqrt")] = LearningRateRule.NONE
    base_batch_size: Annotated[
        int | None,
        Key("for which the program's learning rate was chosen", "whole number", default="the smallest allowed"),
    ] = None


@dataclass(frozen=True)
class Resources:
    """Which offers may be used. Empty fields ask for nothing."""

    clouds: Annotated[
        tuple[str, ...],
        Key("only offers of these clouds", "cloud or list", "cloud", "any"),
        Key("instead of `cloud` and `region`; `*` is any", "`cloud/region`", "infra", "any", also="regions"),
    ] = ()
    regions: Annotated[tuple[str, ...], Key("only offers of these regions", "name or list", "region", "any")] = ()
    instance_types: Annotated[
        tuple[str, ...], Key("as `mlcd offers` names them", "name or list", "instance_type", "any")
    ] = ()
    accelerators: Annotated[  # name, count; any of them
        tuple[tuple[str, float], ...],
        Key(
            "GPU model and how many on a node; of several, any",
            "`A100`, `A100:8`, list, or mapping",
            default="any",
            aliases=("gpus",),
        ),
    ] = ()
    min_vcpus: Annotated[
        float,
        Key("vCPUs of a node, or at least", "number, or `4+`", "cpus", "any", also="exact_vcpus"),
    ] = 0.0
    exact_vcpus: bool = False
    min_memory_gib: Annotated[
        float, Key("memory of a node", "GiB, or `32+`, `512MB`, `1TB+`", "memory", "any", also="exact_memory")
    ] = 0.0
    exact_memory: bool = False
    use_spot: Annotated[bool | None, Key("spot offers, else those on demand", default="`false`")] = None
    max_usd_per_hour: Annotated[float | None, Key("for all nodes together", "money", "max_hourly_cost")] = None


@dataclass(frozen=True)
class SearchSettings:
    """How to look for the deployment."""

    strategy: Annotated[str, Key("one of the [strategies](#strategies)", "name", short="random")] = "auto"
    max_probes: Annotated[int | None, Key("try at most so many deployments", "whole number")] = None
    parallel: Annotated[int, Key("probes at once", "whole number")] = 1
    learn: Annotated[bool, Key("use what earlier jobs of the same or a similar program showed")] = True
    seed: Annotated[int, Key("random seed of the strategy", "whole number or 0")] = 0
    kinds: Annotated[tuple[str, ...], Key("what may be rented", "`vm`, `function` or both")] = ("vm",)
    options: Annotated[dict[str, Any], Key("the strategy's own options", "mapping")] = field(default_factory=dict)


@dataclass(frozen=True)
class ProbeSettings:
    """When a measurement is good enough."""

    interval_share: Annotated[float, Key("exact enough: half the 95 % interval ÷ mean", "share")] = 0.05
    min_seconds: Annotated[float, Key("of measuring, after the warm-up", "duration")] = 5.0
    max_seconds: Annotated[float, Key("of measuring, also if it is not stable", "duration")] = 60.0
    warmup_seconds: Annotated[float, Key("after the first step, not measured", "duration or 0")] = 2.0
    silent_seconds: Annotated[float, Key("without a step: it hangs or never reports", "duration")] = 120.0

    @property
    def measuring_seconds(self) -> float:
        """Warming up and measuring, if all goes well."""
        return self.warmup_seconds + self.min_seconds


@dataclass(frozen=True)
class CheckpointSettings:
    """How the training's state is kept. The empty path: the program uses mlcd's worker API or has none."""

    path: Annotated[
        str,
        Key("where the program saves and finds its state", "folder below the working directory", short="state"),
    ] = ""
    keep: Annotated[int, Key("committed checkpoints to keep, at least two", "whole number")] = 2
    carry: Annotated[bool, Key("a probe goes on from the newest checkpoint, and its steps count")] = True
    grace_seconds: Annotated[float, Key("between SIGTERM and SIGKILL", "duration or 0")] = 15.0
    max_failures: Annotated[int, Key("restarts after the program failed", "whole number or 0")] = 2
    max_losses: Annotated[int, Key("restarts after a node was lost", "whole number or 0")] = 10


@dataclass(frozen=True)
class ProgressSettings:
    """How progress is read from the log, where the program does not report by itself."""

    pattern: Annotated[str, Key("reads progress from the log", "regular expression", short='"…"')] = ""
    hang_seconds: Annotated[
        float | None,
        Key("without a step: start again; `0`: never", "duration or 0", default="by the steps seen"),
    ] = None


@dataclass(frozen=True)
class Job:
    """Program, work to do, allowed deployments and limits."""

    name: Annotated[
        str,
        Key(
            "what the job is called; ids begin with it",
            "text of one line, up to 100 letters",
            default="the file's name",
            heading="The program",
        ),
    ]
    run: Annotated[str, Key("the command that trains, for bash; may have several lines", "command")]
    setup: Annotated[str, Key("run before `run` on each node, billed and timed apart", "text")] = ""
    workdir: Annotated[str, Key("copied for each node of each run", "folder", default="none: an empty folder")] = ""
    envs: Annotated[dict[str, str], Key("environment variables", "mapping of names to texts")] = field(
        default_factory=dict
    )
    secret_names: Annotated[  # the values never enter a noun that is stored
        tuple[str, ...],
        Key("the same, but in no log, database or report", "mapping, or list of names", "secrets"),
    ] = ()
    file_mounts: Annotated[dict[str, str], Key("put into each working copy", "mapping of target to source")] = field(
        default_factory=dict
    )
    outputs: Annotated[
        tuple[str, ...],
        Key("files that make up the model", "pattern or list of patterns", default="model files"),
    ] = ()
    platform: Annotated[str, Key("which processes run on a node", "name", default="by the script")] = "command"
    topology: Annotated[Topology, Key("how the nodes exchange gradients")] = Topology.ALLREDUCE
    cloud: Annotated[str, Key("who sells the machines; a setting changes the default", "name")] = "local"
    nodes: Annotated[
        NodeRange,
        Key("how many nodes may be used", "number or range", "num_nodes", "`1`", heading="Machines"),
    ] = NodeRange()
    resources: Annotated[tuple[Resources, ...], Key()] = (Resources(),)  # any of them
    servers: Annotated[Servers | None, Key()] = None  # with Topology.PS; None: 1, 2, 4 … of the workers' type
    work: Annotated[Work | None, Key(heading="Work")] = None
    batch_sizes: Annotated[BatchSizes, Key(name="batch_size")] = BatchSizes()
    learning_rate: Annotated[LearningRate, Key()] = LearningRate()
    aim: Annotated[
        Aim,
        Key(
            "what to make small: time, cost, or their product",
            "",
            "goal",
            "by the limits",
            heading="Goal and limits",
        ),
    ] = Aim.BALANCED
    deadline_seconds: Annotated[  # from submission; a clock time is resolved when it is read
        float | None,
        Key("by when the model must be there", "duration or moment", "deadline", also="deadline_at"),
    ] = None
    deadline_at: float | None = None  # seconds since the epoch, where a clock time was given
    budget_usd: Annotated[float | None, Key("for search and training together", "money", "budget")] = None
    search: Annotated[SearchSettings, Key(heading="Search and probes")] = SearchSettings()
    probe: Annotated[ProbeSettings, Key()] = ProbeSettings()
    checkpoint: Annotated[CheckpointSettings, Key(heading="Checkpoints and progress")] = CheckpointSettings()
    elastic: Annotated[bool, Key("the training may move to another deployment, if that serves the goal")] = True
    on_nan: Annotated[OnNan, Key("what to do if the loss is nan or infinite")] = OnNan.WARN
    progress: Annotated[ProgressSettings, Key()] = ProgressSettings()
    on_event: Annotated[
        tuple[Recipient, ...],
        Key("who is notified of what happens", "address, mapping, or list of them", heading="Notifications"),
    ] = ()
