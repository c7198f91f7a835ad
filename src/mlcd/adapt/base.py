"""How a run is going, and what may be done about it. Pure.

A decision is made from the situation alone, so that it can be replayed and explained:

    Situation → Keep | Move | Halt          and, where the job itself has changed: Replan (see changes.py)

Move stands for a change of instance type, of nodes and of batch size alike: each is another deployment, reached
through the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from mlcd.adapt.limits import Halt, Keep
from mlcd.core.goal import Goal
from mlcd.core.machines import Deployment
from mlcd.core.study import Ledger

__all__ = ["Halt", "Keep", "Move", "MoveCause", "Policy", "Situation", "Speed"]


@dataclass(frozen=True)
class Speed:
    """Samples a second, with the 95 % band that it is known to."""

    samples_per_second: float
    low: float
    high: float


@dataclass(frozen=True)
class Situation:
    """How the training stands at this moment."""

    goal: Goal
    spent: Ledger  # search and training so far
    deployment: Deployment  # what it runs on
    now: Speed  # what it has been running at lately
    watched_seconds: float  # how long that has been seen in this attempt
    samples_left: float  # at the present batch size
    speeds: Mapping[Deployment, Speed]  # what other deployments were measured or are believed to give
    move_seconds: float  # what a move costs: stopping, starting, no step in between
    moves: int = 0  # made so far
    losses: int = 0  # of nodes, since the last move
    noise_scale: float | None = None  # in samples, once it is stable
    samples_at: Mapping[int, float] = field(default_factory=dict)  # batch size → samples of the whole job


class MoveCause(StrEnum):
    """What asks for a move."""

    USER = "user"
    SPOT = "spot"  # there is no time left to lose machines that may be taken back
    LIMIT = "limit"  # the present speed would break a limit
    LOSSES = "losses"  # nodes keep getting lost
    BATCH_SIZE = "batch size"  # the gradient noise allows a larger one
    VALUE = "value"  # another deployment serves the goal better
    NO_CAPACITY = "no capacity"  # the present deployment cannot be had now


@dataclass(frozen=True)
class Move:
    """Go on elsewhere, from the checkpoint."""

    deployment: Deployment
    why: str  # for people
    cause: MoveCause


class Policy(Protocol):
    """One concern that may change the course of a run."""

    def __call__(self, situation: Situation) -> Keep | Move:
        """What this concern asks for. Keep: nothing."""
