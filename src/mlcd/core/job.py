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

    DOWN = "down"
    UP = "up"


@dataclass(frozen=True)
class Target:
    """A metric that ends the training once it is reached."""

    metric: Annotated[str, Key("the training ends when this metric, reported or read from the log,", "name")]
    value: Annotated[float, Key("has reached this value", "any number")]
    direction: Annotated[
        Direction, Key("which way it gets better", "`up` or `down`", default="by the metric's name")
    ]

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
        Key(
            "instead of `samples`; needs `dataset_size`",
            "number",
            "epochs",
            default="none",
            fields=("epochs",),
        ),
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
        Key(
            "global batch size, over all nodes: `256`, `[64, 96]`, `32..512` (32, 64, 128 … 512)",
            "number, list or range",
            "sizes",
            default="the program's own",
            short="32..512",
        ),
    ] = ()
    accumulate: Annotated[
        int,
        Key("most backward passes to a step, where a node's share does not fit its memory", "whole number"),
    ] = 1

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

    rule: Annotated[
        LearningRateRule, Key("what `mlcd.lr_scale()` follows when the batch size changes", short="sqrt")
    ] = LearningRateRule.NONE
    base_batch_size: Annotated[
        int | None,
        Key(
            "for which the program's learning rate was chosen", "whole number", default="the smallest allowed"
        ),
    ] = None


@dataclass(frozen=True)
class Resources:
    """Which offers may be used. Empty fields ask for nothing."""

    clouds: Annotated[
        tuple[str, ...],
        Key("only offers of this cloud, or of these", "cloud or list", "cloud", default="any"),
        Key(
            "cloud and region in one word, instead of the two; `*` is any",
            "`cloud/region`",
            "infra",
            default="any",
            fields=("clouds", "regions"),
        ),
    ] = ()
    regions: Annotated[
        tuple[str, ...],
        Key("only offers of this region, or of these", "name or list", "region", default="any"),
    ] = ()
    instance_types: Annotated[
        tuple[str, ...], Key("as `mlcd offers` names them", "name or list", "instance_type", default="any")
    ] = ()
    accelerators: Annotated[  # name, count; any of them
        tuple[tuple[str, float], ...],
        Key(
            "GPU model and how many on a node; of several, any. `gpus` is another name of it, as in SkyPilot",
            "`A100`, `A100:8`, list, or mapping",
            default="any",
            aliases=("gpus",),
        ),
    ] = ()
    min_vcpus: Annotated[
        float,
        Key(
            "vCPUs of a node: just so many, or at least",
            "number, or `4+`",
            "cpus",
            default="any",
            fields=("min_vcpus", "exact_vcpus"),
        ),
    ] = 0.0
    exact_vcpus: bool = False
    min_memory_gib: Annotated[
        float,
        Key(
            "memory of a node, likewise",
            "GiB, or `32+`, `512MB`, `1TB+`",
            "memory",
            default="any",
            fields=("min_memory_gib", "exact_memory"),
        ),
    ] = 0.0
    exact_memory: bool = False
    use_spot: Annotated[  # None: on demand only
        bool | None, Key("spot offers instead of those on demand", default="`false`")
    ] = None
    max_usd_per_hour: Annotated[
        float | None, Key("no deployment whose nodes together cost more an hour", "money", "max_hourly_cost")
    ] = None


@dataclass(frozen=True)
class SearchSettings:
    """How to look for the deployment."""

    strategy: Annotated[str, Key("one of the [strategies](#strategies)", "name", short="random")] = "auto"
    max_probes: Annotated[
        int | None, Key("try at most so many deployments", "whole number", default="no cap")
    ] = None
    parallel: Annotated[int, Key("probes at once", "whole number")] = 1
    learn: Annotated[
        bool, Key("begin with what earlier jobs of the same program or a similar one showed")
    ] = True
    seed: Annotated[int, Key("random seed of the strategy", "whole number or 0")] = 0
    kinds: Annotated[tuple[str, ...], Key("what may be rented", "`vm`, `function` or both")] = ("vm",)
    options: Annotated[dict[str, Any], Key("the strategy's own options", "mapping")] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class ProbeSettings:
    """When a measurement is good enough."""

    interval_share: Annotated[
        float, Key("measured enough when half the 95 % interval is below this share of the mean", "share")
    ] = 0.05
    min_seconds: Annotated[float, Key("of measuring, after the warm-up", "duration")] = 5.0
    max_seconds: Annotated[float, Key("of measuring; an unstable program gets no longer", "duration")] = 60.0
    warmup_seconds: Annotated[float, Key("after the first step, not measured", "duration or 0")] = 2.0
    silent_seconds: Annotated[float, Key("no step for so long: it hangs, or never reports", "duration")] = (
        120.0
    )

    @property
    def measuring_seconds(self) -> float:
        """Warming up and measuring, if all goes well."""
        return self.warmup_seconds + self.min_seconds


@dataclass(frozen=True)
class CheckpointSettings:
    """How the training's state is kept. The empty path: the program uses mlcd's worker API or has none."""

    path: Annotated[
        str,
        Key(
            "where a program without `mlcd.checkpoint` saves its state, and looks for it",
            "folder below the working directory",
            short="state",
        ),
    ] = ""
    keep: Annotated[int, Key("committed checkpoints to keep, at least two", "whole number")] = 2
    carry: Annotated[bool, Key("a probe goes on from the newest checkpoint, and what it trains counts")] = (
        True
    )
    grace_seconds: Annotated[float, Key("between SIGTERM and SIGKILL", "duration or 0")] = 15.0
    max_failures: Annotated[int, Key("restarts after the program failed", "whole number or 0")] = 2
    max_losses: Annotated[int, Key("restarts after a node was lost", "whole number or 0")] = 10


@dataclass(frozen=True)
class ProgressSettings:
    """How progress is read from the log, where the program does not report by itself."""

    hang_seconds: Annotated[  # None: by the steps seen
        float | None,
        Key(
            "no step for so long: the training [hangs](../how-to/report-progress.md#when-a-training-makes-no-step), "
            "and is started again; `0`: never",
            "duration or 0",
            default="by the steps seen",
        ),
    ] = None
    pattern: Annotated[
        str,
        Key(
            "reads progress from the log, by the groups `step`, `samples`, `epoch` or any metric's name",
            "regular expression",
            short='"…"',
        ),
    ] = ""


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
    workdir: Annotated[  # absolute
        str,
        Key("copied for every node of every run", "folder", default="none: an empty folder"),
    ] = ""
    envs: Annotated[dict[str, str], Key("environment variables", "mapping of names to texts")] = field(
        default_factory=dict
    )
    secret_names: Annotated[  # the values never enter a noun that is stored
        tuple[str, ...],
        Key(
            "the same, but the values are in no log, database or report",
            "mapping, or list of names",
            "secrets",
        ),
    ] = ()
    file_mounts: Annotated[
        dict[str, str],
        Key(
            "files and folders put into each working copy under a relative path",
            "mapping of target to source",
        ),
    ] = field(default_factory=dict)
    outputs: Annotated[
        tuple[str, ...],
        Key(
            "which files of the working copy make up the model",
            "pattern or list of patterns",
            default="model files",
        ),
    ] = ()
    platform: Annotated[
        str, Key("which processes run on a node, and with which environment", "name", default="by the script")
    ] = "command"
    topology: Annotated[Topology, Key("how the nodes exchange gradients")] = Topology.ALLREDUCE
    cloud: Annotated[str, Key("who sells the machines; the setting `cloud` changes the default", "name")] = (
        "local"
    )
    nodes: Annotated[
        NodeRange,
        Key(
            "how many nodes may be used: `4`, `1..8`",
            "number or range",
            "num_nodes",
            default="`1`",
            heading="Machines",
        ),
    ] = NodeRange()
    resources: Annotated[tuple[Resources, ...], Key()] = (Resources(),)  # any of them
    work: Annotated[Work | None, Key(heading="Work")] = None
    batch_sizes: Annotated[BatchSizes, Key(name="batch_size")] = BatchSizes()
    learning_rate: Annotated[LearningRate, Key()] = LearningRate()
    aim: Annotated[
        Aim,
        Key(
            "what to make small: total time, total cost, or their product",
            name="goal",
            default="by the limits",
            heading="Goal and limits",
        ),
    ] = Aim.BALANCED
    deadline_seconds: Annotated[  # from submission; a clock time is resolved when it is read
        float | None,
        Key(
            "by when the model must be there; a duration counts from the submission",
            "duration or moment",
            "deadline",
            fields=("deadline_seconds", "deadline_at"),
        ),
    ] = None
    deadline_at: float | None = None  # seconds since the epoch, where a clock time was given
    budget_usd: Annotated[float | None, Key("for search and training together", "money", "budget")] = None
    search: Annotated[SearchSettings, Key(heading="Search and probes")] = SearchSettings()
    probe: Annotated[ProbeSettings, Key()] = ProbeSettings()
    checkpoint: Annotated[CheckpointSettings, Key(heading="Checkpoints and progress")] = CheckpointSettings()
    elastic: Annotated[
        bool,
        Key("the training may move to another deployment through its checkpoint, if that serves the goal"),
    ] = True
    on_nan: Annotated[
        OnNan,
        Key("what to do if the loss is [nan or infinite](../how-to/report-progress.md#when-the-loss-is-nan)"),
    ] = OnNan.WARN
    progress: Annotated[ProgressSettings, Key()] = ProgressSettings()
    on_event: Annotated[
        tuple[Recipient, ...],
        Key("who is notified of what happens", "address, mapping, or list of them", heading="Notifications"),
    ] = ()
