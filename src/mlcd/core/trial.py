"""One deployment tried. A measurement and a failure both cost money, and both are data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from mlcd.core.conditions import Conditions
from mlcd.core.machines import Deployment
from mlcd.core.progress import Usage


@dataclass(frozen=True)
class Phases:
    """Where the seconds of a probe went."""

    start: float = 0.0
    setup: float = 0.0
    warmup: float = 0.0
    measuring: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return self.start + self.setup + self.warmup + self.measuring


@dataclass(frozen=True)
class Measurement:
    """The throughput seen."""

    samples_per_second: float
    low: float  # 95 % interval of the mean
    high: float
    steps: float = 0.0
    samples: float = 0.0
    usage: Usage = Usage()
    noise_scale: float | None = None  # of the gradients, in samples, once it was stable
    noise_moves: bool = False  # the gradients' noise was measured, and was not stable yet
    parameters: float = 0.0  # of the model; 0: the program did not tell
    spread: float = 0.0  # of the rate over the probe, standard deviation ÷ mean: how unsteadily it went
    kind: Literal["measurement"] = "measurement"

    @property
    def conditions(self) -> Conditions:
        """What the job was like when this was measured."""
        batch_size = self.samples / self.steps if self.steps > 0 else 0.0
        return Conditions(batch_size, self.parameters)

    @property
    def relative_error(self) -> float:
        """Standard error of the mean ÷ mean."""
        return (self.high - self.low) / 3.92 / self.samples_per_second


class FailureKind(StrEnum):
    """Why there is no throughput."""

    OUT_OF_MEMORY = "out of memory"
    NO_GPU = "no GPU"  # the program needs one, and found none
    CRASHED = "crashed"
    HUNG = "hung"  # no step for too long
    SILENT = "never reported"  # it ran, and not one step was seen
    NOT_SHARED = "work not shared"  # each rank trains the same for itself
    NOT_LOADED = "checkpoint not loaded"  # the next one goes on from the checkpoint before
    LOST = "lost"  # a node went away
    NO_CAPACITY = "no capacity"
    REFUSED = "refused"  # settings, rights or the account are to be changed before anything can start
    UNFIT = "not suited"  # by what the job says itself, such as data that cannot be divided so; nothing was started
    NOT_STARTED = "not started"  # the cloud or the way to its machines failed


@dataclass(frozen=True)
class Failure:
    """Why the deployment gave no measurement."""

    reason: FailureKind
    message: str = ""
    exit_code: int | None = None
    log_tail: str = ""
    hint: str = ""  # what to do about it, where the cloud says
    kind: Literal["failure"] = "failure"


@dataclass(frozen=True)
class Trial:
    """One deployment tried, with what it gave and what it cost."""

    deployment: Deployment
    outcome: Measurement | Failure
    seconds: float
    usd: float
    phases: Phases = Phases()
    task_id: str = ""
    search_number: int = 0  # of the job, see JobRecord.search_number
    fixes: int = 0  # JobRecord.fixes when it was made

    @property
    def measurement(self) -> Measurement | None:
        """What was measured, if it was."""
        return self.outcome if isinstance(self.outcome, Measurement) else None

    @property
    def failure(self) -> Failure | None:
        """What went wrong, if it did."""
        return self.outcome if isinstance(self.outcome, Failure) else None


def of_search(trials: Iterable[Trial], number: int) -> tuple[Trial, ...]:
    """The trials of one of a job's searches."""
    return tuple(trial for trial in trials if trial.search_number == number)
