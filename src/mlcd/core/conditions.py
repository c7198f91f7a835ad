"""What the best deployment depends on besides the machines, and how that changed while a job trained."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Conditions:
    """What the best deployment of a job, or of a phase of a workflow, depends on; 0: it does not say."""

    batch_size: float = 0.0
    parameters: float = 0.0  # of the model
    samples: float = 0.0  # to train in the phase


@dataclass(frozen=True)
class Change:
    """A job under way became another one, as far as machines go, and was replanned."""

    at: float  # on the cloud's clock
    factor: float  # |ln f| of what had changed most
    gain: float | None = None  # what replanning saved of the rest; None: it is still going on
