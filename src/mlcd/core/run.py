"""The training under a plan, and the attempts that it came in.

A job's life:

    SEARCHING → PLANNED → TRAINING → SUCCEEDED
        │          │          ├────→ PAUSED      stopped with a checkpoint before a limit was passed; resume goes on
        ├──────────┴──────────┼────→ STOPPED     by the user; resume goes on
        └─────────────────────┴────→ FAILED      the program, the goal or the cloud; resume tries again
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mlcd.core.machines import Deployment
from mlcd.core.task import EndCause

NOTICEABLE_SECONDS = 1.0  # a shorter gap is a controller at work, and no wait


class JobState(StrEnum):
    """See the life cycle above."""

    SEARCHING = "searching"
    PLANNED = "planned"
    TRAINING = "training"
    SUCCEEDED = "succeeded"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def active(self) -> bool:
        """Whether a controller should be at work."""
        return self in (JobState.SEARCHING, JobState.TRAINING)


class AttemptEnd(StrEnum):
    """How an attempt ended."""

    FINISHED = "finished"
    FAILED = "failed"  # the program's own doing
    LOST = "lost"  # a node's
    STOPPED = "stopped"  # asked for: by the user or a limit
    MOVED = "moved"  # to another deployment, through the checkpoint


@dataclass(frozen=True)
class Attempt:
    """One unbroken piece of the training on one deployment."""

    task_id: str
    number: int
    deployment: Deployment
    started_at: float
    samples_before: float = 0.0
    samples: float = 0.0  # done in this attempt
    seconds: float = 0.0
    usd: float = 0.0
    end: AttemptEnd | None = None
    why: str = ""  # it ended, for people
    first_step_at: float | None = None
    last_step_at: float | None = None
    samples_per_second: float = 0.0  # in its last minute
    ended_at: float | None = None
    longest_pause_seconds: float = 0.0  # between two steps, or before the first
    nan_loss: str = ""  # the loss that was nan or infinite when it was last seen
    cause: EndCause | None = None  # of its end, for decisions
    exit_code: int | None = None  # of the program, where it ended by itself


@dataclass(frozen=True)
class Run:
    """All attempts so far."""

    attempts: tuple[Attempt, ...] = ()

    @property
    def samples(self) -> float:
        """Samples done that were not lost again."""
        return self.attempts[-1].samples_before + self.attempts[-1].samples if self.attempts else 0.0

    @property
    def pauses(self) -> dict[int, float]:
        """Number of an attempt → seconds without a step between the one before and it."""
        pairs = zip(self.attempts, self.attempts[1:], strict=False)
        return {
            after.number: after.first_step_at - before.last_step_at
            for before, after in pairs
            if after.first_step_at is not None and before.last_step_at is not None
        }

    @property
    def move_seconds(self) -> float:
        """Seconds without a step because of moves to other deployments, all together."""
        moved = {
            after.number
            for before, after in zip(self.attempts, self.attempts[1:], strict=False)
            if before.cause is EndCause.MOVE
        }
        return sum(seconds for number, seconds in self.pauses.items() if number in moved)

    def stopped_seconds(self, now: float | None = None) -> float:
        """Seconds between attempts that were stopped, or failed, and the next; to now where the next is to begin."""
        begins = [*(attempt.started_at for attempt in self.attempts[1:]), *([] if now is None else [now])]
        gaps = [
            begin - attempt.ended_at
            for attempt, begin in zip(self.attempts, begins, strict=False)
            if attempt.end in (AttemptEnd.STOPPED, AttemptEnd.FAILED) and attempt.ended_at is not None
        ]
        return sum(gap for gap in gaps if gap >= NOTICEABLE_SECONDS)

    def count(self, end: AttemptEnd) -> int:
        """How many attempts ended that way."""
        return sum(attempt.end is end for attempt in self.attempts)
