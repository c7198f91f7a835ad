"""A model for a job that was hardly seen: shapes from other jobs, the scale from one probe of its own.

    f₀  family that was probed        r   log(β·m/α) at the probe's micro-batch, the one thing not seen for sure
    m₀  the job's smallest micro-batch: what its space goes down to is where its users saw it pay no more

Taken from other jobs, as means of logarithms:
    α_f/α_f₀, β_f/β_f₀    how a family computes beside the probed one (jobs that load a device tell of β,
                          jobs that leave it idle tell of α)
    S_f(n, g)/c_f(m₀)     synchronisation beside the smallest piece of compute
    α_f₀, load            where the probe's time may come from: the constant, or the samples
The probe fixes α for every r; r keeps a distribution (a line of values with weights), narrowed where the probe
also ran the batch in small pieces. The forecast is the median over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log

import numpy as np
from numpy.typing import NDArray

from mlcd.forecast.estimate import Estimate, spread_around
from mlcd.forecast.parallel import Placement, StepLaw

Array = NDArray[np.float64]
Laws = Mapping[str, StepLaw]  # family → law of one job

LAW_SPREAD = 1.5  # of log α and of the load, between jobs: e^1.5 is a factor of 4.5
PIECES_SPREAD = 0.03  # of the ratio of two step times
SHAPE_SPREAD = 0.25  # of another job's shape, as a share; seen between recorded jobs
UNKNOWN_FAMILY_SPREAD = 1.0  # nobody ran on this family: its speed is a guess
_R = np.linspace(-12.0, 10.0, 441)

# What is believed where no job was ever stored: the priors of the fit at a usual scale.
GENERIC = StepLaw(alpha_seconds=0.03, beta_seconds=8e-4, smallest_micro_batch=4, largest_micro_batch=100)


@dataclass(frozen=True)
class Probe:
    """One probe: the step time, and where the batch was also run in pieces, the time of one piece."""

    placement: Placement
    step_seconds: float
    piece_samples: float | None = None
    piece_seconds: float | None = None


@dataclass(frozen=True)
class UniversalModel:
    """Step times of a job on any placement, from one probe and the laws of other jobs."""

    probe: Probe
    smallest_micro_batch: float
    others: tuple[Laws, ...]
    log_alpha: Array  # on the probed family, for each r
    log_beta: Array
    weights: Array
    saturation: float
    overlap: float

    def step(self, placement: Placement) -> Estimate:
        """Expected step time in seconds."""
        logs = self._log_steps(placement)
        order = np.argsort(logs)
        steps = np.cumsum(self.weights[order])
        middle = float(logs[order][np.searchsorted(steps, 0.5)])
        spread = float(np.sqrt(self.weights @ (logs - middle) ** 2 + self._shape_spread(placement) ** 2))
        return spread_around(exp(middle), spread)

    def _log_steps(self, placement: Placement) -> Array:
        p, q = self.saturation, self.overlap
        log_alpha = self.log_alpha + self._offset(placement.family, "alpha")
        log_beta = self.log_beta + self._offset(placement.family, "beta")
        compute = _compute(log_alpha, log_beta, p, placement.micro_batch)
        sync: Array = np.zeros_like(compute)
        if placement.devices > 1:
            smallest = _compute(log_alpha, log_beta, p, self.smallest_micro_batch)
            sync = smallest * exp(self._sync_ratio(placement))
        last = (compute**q + sync**q) ** (1 / q)
        return np.asarray(np.log((placement.micro_batches - 1) * compute + last))

    def _offset(self, family: str, parameter: str) -> float:
        """log of a family's α or β beside the probed family's."""
        pairs = [(laws[family], laws[self._probed]) for laws in self.others if self._tells_of(laws, family)]
        if not pairs:
            return 0.0
        if parameter == "alpha":
            ratios = [log(law.alpha_seconds / here.alpha_seconds) for law, here in pairs]
            shares = [_idle(law) * _idle(here) for law, here in pairs]
        else:
            ratios = [log(law.beta_seconds / here.beta_seconds) for law, here in pairs]
            shares = [_busy(law) * _busy(here) for law, here in pairs]
        return float(np.average(ratios, weights=shares))

    def _sync_ratio(self, placement: Placement) -> float:
        """log of S beside the smallest piece of compute."""
        ratios = [
            laws[placement.family].sync_ratio(placement.grid)
            + log(laws[placement.family].alpha_seconds)
            - log(laws[placement.family].compute_seconds(_smallest(laws)))
            for laws in self.others
            if placement.family in laws
        ]
        return float(np.mean(ratios)) if ratios else GENERIC.sync_ratio(placement.grid)

    def _shape_spread(self, placement: Placement) -> float:
        if placement == self.probe.placement:
            return PIECES_SPREAD
        known = placement.family == self._probed or any(self._tells_of(laws, placement.family) for laws in self.others)
        return SHAPE_SPREAD if known else UNKNOWN_FAMILY_SPREAD

    def _tells_of(self, laws: Laws, family: str) -> bool:
        return family in laws and self._probed in laws

    @property
    def _probed(self) -> str:
        return self.probe.placement.family


def universal_model(probe: Probe, smallest_micro_batch: float, others: Sequence[Laws]) -> UniversalModel:
    """The model of a job from one probe, best on a single device, and the laws of other jobs."""
    placement = probe.placement
    laws = [law for job in others for law in job.values()] or [GENERIC]
    near = [job[placement.family] for job in others if placement.family in job] or laws
    p, q = (float(np.mean([getattr(law, name) for law in laws])) for name in ("saturation", "overlap"))
    unit = np.zeros_like(_R)
    loads = _R - log(placement.micro_batch)
    model = UniversalModel(probe, smallest_micro_batch, tuple(others), unit, loads, unit, p, q)
    # All of a step is a multiple of α once r is given, so the probe's time gives α.
    log_alpha = log(probe.step_seconds) - model._log_steps(placement)
    weights = _weights(probe, near, log_alpha, p)
    return replace(model, log_alpha=log_alpha, log_beta=log_alpha + loads, weights=weights)


def _weights(probe: Probe, near: Sequence[StepLaw], log_alpha: Array, p: float) -> Array:
    """How likely each r is: by what other jobs were like, and by the pieces that the probe ran."""
    micro = probe.placement.micro_batch
    reach = log(max(probe.placement.micro_limit, micro) / micro) if probe.placement.micro_limit < inf else 0.0
    alpha = np.mean([log(law.alpha_seconds) for law in near])
    load = np.mean([law.log_load for law in near])
    logs = -0.5 * ((log_alpha - alpha) ** 2 + (_R + reach - load) ** 2) / LAW_SPREAD**2
    if probe.piece_samples is not None and probe.piece_seconds is not None:
        expected = np.log1p(np.exp(p * (_R + log(probe.piece_samples / micro)))) / p + log_alpha
        logs -= 0.5 * ((expected - log(probe.piece_seconds)) / PIECES_SPREAD) ** 2
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _compute(log_alpha: Array, log_beta: Array, p: float, micro_batch: float) -> Array:
    return np.asarray((np.exp(p * log_alpha) + np.exp(p * (log_beta + log(micro_batch)))) ** (1 / p))


def _smallest(laws: Laws) -> float:
    return min(law.smallest_micro_batch for law in laws.values())


def _busy(law: StepLaw) -> float:
    """Share of the largest piece's time that the samples take."""
    return 1.0 / (1.0 + exp(-law.log_load))


def _idle(law: StepLaw) -> float:
    """Share of the smallest piece's time that the constant takes."""
    return 1.0 / (1.0 + exp(law.log_load) * law.smallest_micro_batch / law.largest_micro_batch)
