"""Time of a whole training: the statistical and the parallel model together.

T = n_i·τ (equation 3),  n_i = e·D/B = samples(B)/B (equation 4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mlcd.forecast.estimate import Estimate
from mlcd.forecast.parallel import Placement


class StepTimes(Protocol):
    """Anything that predicts step times: a StepModel, a UniversalModel."""

    def step(self, placement: Placement) -> Estimate:
        """Expected step time in seconds."""
        ...


class SamplesToTarget(Protocol):
    """Anything that predicts samples to the target: a SamplesModel."""

    def samples(self, batch: int) -> Estimate:
        """Expected samples at this batch size."""
        ...


@dataclass(frozen=True)
class TrainingModel:
    """Training time of one job on any placement of the families it has a step model for."""

    steps: dict[str, StepTimes]  # by family
    samples: SamplesToTarget

    def training_seconds(self, placement: Placement) -> Estimate:
        """T with its interval."""
        iterations = self.samples.samples(placement.batch).scaled(1.0 / placement.batch)
        return iterations.times(self.steps[placement.family].step(placement))
