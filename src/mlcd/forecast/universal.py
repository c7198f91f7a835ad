"""A model for a job that was hardly seen: shapes from other jobs and data sheets, the scale from one probe of its own.

    f₀  family that was probed        r   log(β·m/α) at the probe's micro-batch
    m₀  the job's smallest micro-batch: what its space goes down to is where its users saw it pay no more
    S₀  synchronisation on f₀'s smallest cluster, u = log(S₀/c(m₀))

What one probe can tell of the job itself: its time fixes α once r and u are given; the same batch in small pieces
tells r; a step of several devices together tells u. What it does not tell comes from other jobs, as means of logarithms:
    α_f/α_f₀, β_f/β_f₀    how a family computes beside the probed one (jobs that load a device tell of β, jobs that
                          leave it idle tell of α); of β the data sheets tell too, as a quarter of a job would
    S_f(n, g)/S₀          how synchronisation beside c(m₀) grows, and compares on other families
    α_f₀, load, u         where the probe's time may come from, as far as it does not tell itself
All that is not known has a distribution, and the model is a sample of it: the interval is its spread, the forecast its
median, other families and clusters comparing just as they did for other jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, inf, log
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mlcd.forecast.estimate import Estimate, spread_around
from mlcd.forecast.gpu_facts import log_speed
from mlcd.forecast.parallel import Grid, Placement, StepLaw

Array = NDArray[np.float64]
Laws = Mapping[str, StepLaw]  # family → law of one job

DRAWS = 400
LAW_SPREAD = 1.5  # of log α and of the load, between jobs: e^1.5 is a factor of 4.5
SYNC_SPREAD = 1.2  # of u, between jobs
SEEN_SPREAD = 0.03  # of the ratio of two step times
SHAPE_SPREAD = 0.1  # of a step: what so simple a law misses of a job that it was not fitted to
FAMILY_SPREAD = {"alpha": 0.5, "beta": 0.3, "sync": 0.3}  # of a family beside another, against what other jobs had
SYNC_SHAPE_SPREAD = 0.3  # of how synchronisation grows with a cluster, against what it did for other jobs
FACTS_COUNT = 0.25  # jobs that the data sheets stand for
UNKNOWN_FAMILY_SPREAD = 1.5  # nobody ran on this family: its speed is a guess, by the data sheets where they know it

# What is believed where no job was ever stored: the priors of the fit at a usual scale.
GENERIC = StepLaw(alpha_seconds=0.03, beta_seconds=8e-4, smallest_micro_batch=4, largest_micro_batch=100)


@dataclass(frozen=True)
class Probe:
    """One probe: the step time; where the batch was also run in pieces, the time of one; where devices also worked
    together, the time of such a step."""

    placement: Placement
    step_seconds: float
    piece_samples: float | None = None
    piece_seconds: float | None = None
    together: Placement | None = None
    together_seconds: float | None = None


@dataclass(frozen=True)
class UniversalModel:
    """Step times of a job on any placement, from one probe and the laws of other jobs: a sample of what may be so."""

    probe: Probe
    smallest: float  # m₀
    others: tuple[Laws, ...]
    cluster: Grid  # where S₀ is taken
    log_alpha: Array  # on the probed family, a value for each draw
    log_beta: Array
    log_sync: Array  # of S₀
    saturation: float
    overlap: float
    doubt: bool = True  # whether this job may differ from others in how families and clusters compare

    def step(self, placement: Placement) -> Estimate:
        """Expected step time in seconds."""
        logs, middle = self._log_steps(placement), float(np.median(self._likeliest._log_steps(placement)))
        missed = SEEN_SPREAD if placement in (self.probe.placement, self.probe.together) else SHAPE_SPREAD
        return spread_around(exp(middle), float(np.sqrt(np.mean((logs - middle) ** 2) + missed**2)))

    def _log_steps(self, placement: Placement) -> Array:
        compute = self._compute(placement.family, placement.micro_batch)
        sync = np.exp(self._log_sync(placement)) if placement.devices > 1 else np.zeros_like(compute)
        return _log_step(compute, sync, self.overlap, placement.micro_batches)

    def _compute(self, family: str, micro_batch: float) -> Array:
        log_alpha = self.log_alpha + self._offset(family, "alpha")
        log_beta = self.log_beta + self._offset(family, "beta")
        return _compute(log_alpha, log_beta, self.saturation, micro_batch)

    def _offset(self, family: str, parameter: str) -> Array:
        """log of a family's α or β beside the probed family's, draw by draw."""
        if family == self._probed:
            return np.zeros_like(self.log_alpha)
        pairs = self._told(family)
        mean, count = _family_offset(pairs, parameter, _facts_offset(family, self._probed))
        spread = FAMILY_SPREAD[parameter] * (1.0 + 1.0 / count) ** 0.5 if pairs else UNKNOWN_FAMILY_SPREAD
        return mean + spread * self._normal(family, parameter)

    def _log_sync(self, placement: Placement) -> Array:
        """log S, draw by draw: S₀, and how S beside the smallest piece of compute compares for other jobs."""
        family, grid = placement.family, placement.grid
        ratios = [_sync_share(law, grid) - _sync_share(here, self.cluster) for law, here in self._told(family)]
        mean = float(np.mean(ratios or [GENERIC.sync_ratio(grid) - GENERIC.sync_ratio(self.cluster)]))
        if (family, grid) == (self._probed, self.cluster):
            return self.log_sync
        shape = SYNC_SHAPE_SPREAD * self._normal(family, str(grid))
        if family == self._probed:
            return self.log_sync + mean + shape
        smallest = np.log(self._compute(family, self.smallest) / self._compute(self._probed, self.smallest))
        wires = FAMILY_SPREAD["sync"] if ratios else UNKNOWN_FAMILY_SPREAD
        return np.asarray(self.log_sync + mean + shape + smallest + wires * self._normal(family, "sync"))

    def _told(self, family: str) -> list[tuple[StepLaw, StepLaw]]:
        """Of every job that ran on both: its law on a family, and on the probed one."""
        return [(laws[family], laws[self._probed]) for laws in self.others if family in laws and self._probed in laws]

    @cached_property
    def _likeliest(self) -> UniversalModel:
        """The same where other families and clusters compare just as they did for other jobs."""
        return replace(self, doubt=False)

    def _normal(self, *of: str) -> Array:
        """Standard normal values that share nothing with the rest, the same whenever the same thing is asked."""
        if not self.doubt:
            return np.zeros_like(self.log_alpha)
        even = ndtri((np.arange(len(self.log_alpha)) + 0.5) / len(self.log_alpha))
        return np.asarray(np.random.default_rng(crc32(":".join(of).encode())).permutation(even))

    @property
    def _probed(self) -> str:
        return self.probe.placement.family


def universal_model(probe: Probe, smallest_micro_batch: float, others: Sequence[Laws]) -> UniversalModel:
    """The model of a job from one probe, best on a single device, and the laws of other jobs."""
    family, place = probe.placement.family, probe.placement
    laws = [law for job in others for law in job.values()] or [GENERIC]
    near = [job[family] for job in others if family in job] or laws
    p, q = (float(np.mean([getattr(law, name) for law in laws])) for name in ("saturation", "overlap"))
    together = next((one for one in (probe.together, place) if one is not None and one.devices > 1), None)
    cluster = together.grid if together else (2, 1)
    usual = float(np.mean([_sync_share(law, cluster) for law in near]))
    r, u = (axis.ravel() for axis in np.meshgrid(np.linspace(-12, 10, 221), usual + np.linspace(-4, 4, 65)))
    loads = r - log(place.micro_batch)  # log(β/α)
    log_sync = u + np.log(_compute(np.zeros_like(r), loads, p, smallest_micro_batch))
    unit = UniversalModel(probe, smallest_micro_batch, tuple(others), cluster, np.zeros_like(r), loads, log_sync, p, q)
    # All of a step is a multiple of α once r and u are given, so the probe's time gives α.
    log_alpha = log(probe.step_seconds) - _unit_step(unit, place)
    logs = -0.5 * ((u - usual) / SYNC_SPREAD) ** 2 + _log_prior(probe, near, log_alpha, r)
    logs = logs + _log_likelihood(unit, log_alpha)
    chosen = _evenly(np.exp(logs - logs.max()))
    drawn = (log_alpha[chosen], (log_alpha + loads)[chosen], (log_alpha + log_sync)[chosen])
    return replace(unit, log_alpha=drawn[0], log_beta=drawn[1], log_sync=drawn[2])


def _evenly(weights: Array) -> NDArray[np.int_]:
    """Rows in proportion to their weights, spread evenly over them: u, by which they are sorted, and r within it."""
    steps = np.cumsum(weights) / weights.sum()
    return np.searchsorted(steps, (np.arange(DRAWS) + 0.5) / DRAWS)


def _unit_step(unit: UniversalModel, placement: Placement) -> Array:
    """log τ on the probed family at α = 1, without doubts about how clusters compare."""
    compute = _compute(unit.log_alpha, unit.log_beta, unit.saturation, placement.micro_batch)
    sync = np.exp(unit.log_sync) if placement.devices > 1 else np.zeros_like(compute)
    return _log_step(compute, sync, unit.overlap, placement.micro_batches)


def _log_prior(probe: Probe, near: Sequence[StepLaw], log_alpha: Array, r: Array) -> Array:
    """How likely each r is by what other jobs were like."""
    micro = probe.placement.micro_batch
    reach = log(max(probe.placement.micro_limit, micro) / micro) if probe.placement.micro_limit < inf else 0.0
    alpha = np.mean([log(law.alpha_seconds) for law in near])
    load = np.mean([law.log_load for law in near])
    return np.asarray(-0.5 * ((log_alpha - alpha) ** 2 + (r + reach - load) ** 2) / LAW_SPREAD**2)


def _log_likelihood(unit: UniversalModel, log_alpha: Array) -> Array:
    """How well each r and u explain what else the probe saw."""
    probe, logs = unit.probe, np.zeros_like(log_alpha)
    if probe.piece_samples is not None and probe.piece_seconds is not None:
        piece = np.log(_compute(unit.log_alpha, unit.log_beta, unit.saturation, probe.piece_samples))
        logs -= 0.5 * ((log_alpha + piece - log(probe.piece_seconds)) / SEEN_SPREAD) ** 2
    if probe.together is not None and probe.together_seconds is not None:
        step = _unit_step(unit, probe.together)
        logs -= 0.5 * ((log_alpha + step - log(probe.together_seconds)) / SEEN_SPREAD) ** 2
    return logs


def _family_offset(
    pairs: Sequence[tuple[StepLaw, StepLaw]], parameter: str, facts: float | None
) -> tuple[float, float]:
    """Mean log ratio of two families and how many jobs tell of it, each by how much it can tell."""
    seconds = f"{parameter}_seconds"
    share = _idle if parameter == "alpha" else _busy
    ratios = [log(getattr(law, seconds) / getattr(here, seconds)) for law, here in pairs]
    counts = [share(law) * share(here) for law, here in pairs]
    if facts is not None and parameter == "beta":
        ratios, counts = [*ratios, facts], [*counts, FACTS_COUNT]
    elif facts is not None and not pairs:  # a step however small is little faster on a faster device
        ratios, counts = [0.0], [FACTS_COUNT]
    return (float(np.average(ratios, weights=counts)), sum(counts)) if ratios else (0.0, 0.0)


def _facts_offset(family: str, probed: str) -> float | None:
    there, here = log_speed(family), log_speed(probed)
    return None if there is None or here is None else here - there


def _log_step(compute: Array, sync: Array, q: float, pieces: int) -> Array:
    return np.asarray(np.log((pieces - 1) * compute + (compute**q + sync**q) ** (1 / q)))


def _compute(log_alpha: Array, log_beta: Array, p: float, micro_batch: float) -> Array:
    return np.asarray(np.exp(np.logaddexp(p * log_alpha, p * (log_beta + log(micro_batch))) / p))


def _sync_share(law: StepLaw, grid: Grid) -> float:
    """log of S beside the smallest piece of compute."""
    return law.sync_ratio(grid) + log(law.alpha_seconds) - log(law.compute_seconds(law.smallest_micro_batch))


def _busy(law: StepLaw) -> float:
    """Share of the largest piece's time that the samples take."""
    return 1.0 / (1.0 + exp(-law.log_load))


def _idle(law: StepLaw) -> float:
    """Share of the smallest piece's time that the constant takes."""
    return 1.0 / (1.0 + exp(law.log_load) * law.smallest_micro_batch / law.largest_micro_batch)
