"""The task that runs now, as its controller last saw it."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlcd.core.machines import Deployment
from mlcd.core.progress import Usage
from mlcd.core.task import TaskKind, TaskState


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
