"""The keys that a job file may have: those of a SkyPilot task, and ours.

Each value is read by a function of mlcd.core.jobfile.values; what concerns several keys is checked here.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    model_validator,
)

from mlcd.core.goal import Aim
from mlcd.core.job import (
    BatchSizes,
    CheckpointSettings,
    Direction,
    LearningRateRule,
    NodeRange,
    OnNan,
    ProbeSettings,
    ProgressSettings,
    SearchSettings,
    Topology,
)
from mlcd.core.jobfile import context as around
from mlcd.core.jobfile import values as read
from mlcd.core.notices import Recipient

# Keys of a SkyPilot task that mlcd understands and has no use for.
UNUSED = frozenset(
    {
        "event_callback",
        "service",
        "pool",
        "inputs",
        "file_mounts_mapping",
        "config",
        "experimental",
        "volumes",
        "volume_mounts",
        "managed_secrets",
        "api_server_access",
        "_metadata",
    }
)
UNUSED_RESOURCES = frozenset(
    {
        "zone",
        "disk_size",
        "disk_tier",
        "network_tier",
        "local_disk",
        "ephemeral_storage",
        "ports",
        "image_id",
        "labels",
        "autostop",
        "accelerator_args",
        "job_recovery",
        "spot_recovery",
        "volumes",
        "priority",
        "priority_class",
        "hooks",
        "_no_missing_accel_warnings",
        "_docker_login_config",
        "_is_image_managed",
        "_requires_fuse",
        "_cluster_config_overrides",
    }
)
# SkyPilot's other names for keys of `resources`.
RESOURCE_ALIASES = {"gpus": "accelerators"}
# Several keys have a short form: 'search: random' is 'search: {strategy: random}'.
SHORT_FORMS = {"search": "strategy", "checkpoint": "path", "progress": "pattern", "learning_rate": "rule"}


class Keys(BaseModel):
    """Keys and nothing else; a key without a value is as good as none."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_blanks(cls, data: Any) -> Any:
        return (
            {key: value for key, value in data.items() if value is not None}
            if isinstance(data, dict)
            else data
        )


class MachineKeys(Keys):
    """Which machines may be used."""

    infra: Annotated[str, PlainValidator(read.filled_text)] = ""
    cloud: Annotated[str, PlainValidator(read.filled_text)] = ""
    region: Annotated[str, PlainValidator(read.filled_text)] = ""
    accelerators: Annotated[tuple[tuple[str, float], ...], PlainValidator(read.accelerators)] = ()
    cpus: Annotated[tuple[float, bool], PlainValidator(read.cpus)] = (0.0, False)
    memory: Annotated[tuple[float, bool], PlainValidator(read.memory)] = (0.0, False)
    instance_type: Annotated[tuple[str, ...], PlainValidator(read.texts)] = ()
    use_spot: Annotated[bool | None, PlainValidator(read.yes_or_no)] = None
    max_hourly_cost: Annotated[float | None, PlainValidator(read.usd)] = None

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        for alias, key in RESOURCE_ALIASES.items():
            if alias in data and key in data:
                raise ValueError(f"'{alias}' is another name of '{key}'; leave one out")
        return {RESOURCE_ALIASES.get(key, key): value for key, value in data.items()}

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.infra and (self.cloud or self.region):
            raise ValueError("'infra' says the cloud and the region; leave out 'cloud' and 'region'")
        return self


class ResourcesKeys(MachineKeys):
    """The same, with alternatives."""

    any_of: tuple[MachineKeys, ...] = ()
    ordered: tuple[MachineKeys, ...] = ()

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.any_of and self.ordered:
            raise ValueError("there is both 'any_of' and 'ordered'; leave one out")
        return self


class TargetKeys(Keys):
    """The metric that ends the training."""

    metric: Annotated[str, PlainValidator(read.filled_text)]
    value: Annotated[float, PlainValidator(read.number)]
    direction: Annotated[Direction | None, PlainValidator(read.direction)] = None


class WorkKeys(Keys):
    """How much is to be trained."""

    samples: Annotated[float | None, PlainValidator(read.positive)] = None
    epochs: Annotated[float | None, PlainValidator(read.positive)] = None
    dataset_size: Annotated[int | None, PlainValidator(read.count)] = None
    until: TargetKeys | None = None

    @model_validator(mode="after")
    def _says_how_much(self) -> Self:
        if self.samples is not None and self.epochs is not None:
            raise ValueError("there is both 'samples' and 'epochs'; leave one out")
        if self.epochs is not None and self.dataset_size is None:
            raise ValueError("'epochs' needs 'dataset_size', the samples in one epoch")
        if self.samples is None and self.epochs is None:
            cap = " as the most to train before the target is reached" if self.until else ""
            raise ValueError(f"say 'samples', or 'epochs' and 'dataset_size'{cap}")
        return self


class SearchKeys(Keys):
    """How to look for the deployment."""

    strategy: Annotated[str, PlainValidator(read.filled_text)] = SearchSettings.strategy
    max_probes: Annotated[int | None, PlainValidator(read.count)] = None
    parallel: Annotated[int, PlainValidator(read.count)] = SearchSettings.parallel
    learn: Annotated[bool, PlainValidator(read.yes_or_no)] = SearchSettings.learn
    seed: Annotated[int, PlainValidator(read.count_or_zero)] = 0
    kinds: Annotated[tuple[str, ...], PlainValidator(read.kinds)] = ("vm",)
    options: dict[str, Any] = Field(default_factory=dict)


class ProbeKeys(Keys):
    """When a measurement is good enough."""

    interval_share: Annotated[float, PlainValidator(read.share)] = ProbeSettings.interval_share
    min_seconds: Annotated[float, PlainValidator(read.seconds)] = ProbeSettings.min_seconds
    max_seconds: Annotated[float, PlainValidator(read.seconds)] = ProbeSettings.max_seconds
    warmup_seconds: Annotated[float, PlainValidator(read.seconds_or_zero)] = ProbeSettings.warmup_seconds
    silent_seconds: Annotated[float, PlainValidator(read.seconds)] = ProbeSettings.silent_seconds

    @model_validator(mode="after")
    def _floor_below_ceiling(self) -> Self:
        if self.min_seconds > self.max_seconds:
            raise ValueError(
                f"min_seconds ({self.min_seconds:g}) is above max_seconds ({self.max_seconds:g})"
            )
        return self


class CheckpointKeys(Keys):
    """How the training's state is kept."""

    path: Annotated[str, PlainValidator(read.inside_path)] = ""
    keep: Annotated[int, PlainValidator(read.count)] = CheckpointSettings.keep
    carry: Annotated[bool, PlainValidator(read.yes_or_no)] = CheckpointSettings.carry
    grace_seconds: Annotated[float, PlainValidator(read.seconds_or_zero)] = CheckpointSettings.grace_seconds
    max_failures: Annotated[int, PlainValidator(read.count_or_zero)] = CheckpointSettings.max_failures
    max_losses: Annotated[int, PlainValidator(read.count_or_zero)] = CheckpointSettings.max_losses


class LearningRateKeys(Keys):
    """How the learning rate follows the batch size."""

    rule: Annotated[LearningRateRule, PlainValidator(read.learning_rate_rule)] = LearningRateRule.NONE
    base_batch_size: Annotated[int | None, PlainValidator(read.count)] = None


class ProgressKeys(Keys):
    """How progress is read from the log, and when there is none any more."""

    pattern: Annotated[str, PlainValidator(read.pattern)] = ProgressSettings.pattern
    hang_seconds: Annotated[float | None, PlainValidator(read.seconds_or_zero)] = None


def _long(key: str) -> BeforeValidator:
    """Takes the short form of a key for the long one."""
    return BeforeValidator(lambda value: value if isinstance(value, dict) else {SHORT_FORMS[key]: value})


class JobKeys(Keys):
    """A job file."""

    name: Annotated[str, PlainValidator(read.job_name)] = ""
    run: Annotated[str, PlainValidator(read.filled_text)]
    setup: Annotated[str, PlainValidator(read.text)] = ""
    workdir: Annotated[str, PlainValidator(around.read_workdir)] = ""
    envs: Annotated[dict[str, str], PlainValidator(around.read_envs)] = Field(default_factory=dict)
    secrets: Annotated[dict[str, str], PlainValidator(around.read_secrets)] = Field(default_factory=dict)
    file_mounts: Annotated[dict[str, str], PlainValidator(around.read_mounts)] = Field(default_factory=dict)
    outputs: Annotated[tuple[str, ...], PlainValidator(around.read_outputs)] = ()
    num_nodes: Annotated[NodeRange, PlainValidator(read.node_range)] = NodeRange()
    resources: ResourcesKeys = Field(default_factory=ResourcesKeys)
    work: WorkKeys | None = None
    batch_size: Annotated[BatchSizes, PlainValidator(read.batch_sizes_or_more)] = BatchSizes()
    learning_rate: Annotated[LearningRateKeys, _long("learning_rate")] = Field(
        default_factory=LearningRateKeys
    )
    goal: Annotated[Aim | None, PlainValidator(read.aim)] = None
    deadline: Annotated[datetime | float | None, PlainValidator(around.read_deadline)] = None
    budget: Annotated[float | None, PlainValidator(read.usd)] = None
    search: Annotated[SearchKeys, _long("search")] = Field(default_factory=SearchKeys)
    probe: ProbeKeys = Field(default_factory=ProbeKeys)
    checkpoint: Annotated[CheckpointKeys, _long("checkpoint")] = Field(default_factory=CheckpointKeys)
    progress: Annotated[ProgressKeys, _long("progress")] = Field(default_factory=ProgressKeys)
    platform: Annotated[str, PlainValidator(read.filled_text)] = ""
    topology: Annotated[Topology, PlainValidator(read.topology)] = Topology.ALLREDUCE
    on_nan: Annotated[OnNan, PlainValidator(read.on_nan)] = OnNan.WARN
    elastic: Annotated[bool, PlainValidator(read.yes_or_no)] = True
    cloud: Annotated[str, PlainValidator(read.filled_text)] = "local"
    on_event: Annotated[tuple[Recipient, ...], PlainValidator(around.read_recipients)] = ()
