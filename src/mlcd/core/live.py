"""A task that runs now, as its controller last saw it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mlcd.core.machines import Deployment
from mlcd.core.progress import Saving, Usage
from mlcd.core.task import TaskKind, TaskState


@dataclass(frozen=True)
class Live:
    """A task that runs now."""

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
    saving: Saving | None = None  # how often the program saves, where mlcd tells it when to
    nan_loss: str = ""  # the loss that is nan or infinite
    no_step_seconds: float = 0.0  # where that is longer than usual; 0: steps come
    hang_seconds: float | None = None  # no step and no sign of life for so long: the attempt is ended
    seen_at: float = 0.0  # on the cloud's clock; 0: not known

    def at(self, now: float) -> Live:
        """As it stands by now if it goes on: nobody has looked since, and the clock and the price have not stopped."""
        later = max(0.0, now - self.seen_at) if self.seen_at > 0 else 0.0
        left = None if self.left_seconds is None else self.left_seconds - later
        return replace(
            self,
            seconds=self.seconds + later,
            usd=self.usd + self.deployment.usd(later),
            left_seconds=left if left is not None and left > 0 else None,
            no_step_seconds=self.no_step_seconds + later if self.no_step_seconds > 0 else 0.0,
            seen_at=self.seen_at + later,
        )
