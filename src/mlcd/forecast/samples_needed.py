"""How many samples a job is expected to need at each batch size, from what was trained and what noise was seen.

    φ   noise scale, samples        samples(B) = samples(B₀) · (φ + B) ÷ (φ + B₀)

Trainings of the same job to the same target at two batch sizes or more tell φ by themselves (statistical.py);
with one of them, or none but the user's word, the measured gradient noise has to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, hypot, inf, log
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from mlcd.forecast.estimate import Estimate, spread_around
from mlcd.forecast.statistical import Work, fit_samples

Array = NDArray[np.float64]

# What is believed before a job was trained. At the largest batch size that its users offer it needs 1.3 times the
# samples, and in two of three cases between 1.07 and 2.5 times.
PAYS_AT, PAYS_SPREAD = 3.0, 1.5  # φ ÷ the largest batch size; of the logarithm
FIRST_NOISE_SPREAD = 2.0  # of the logarithm of φ ÷ first noise, between jobs
FALL_SPREAD = 0.1  # of the logarithm, for each factor e of the batch size


def samples_by_batch(batches: Iterable[int], known: Sequence[Work], noise_scale: float | None) -> dict[int, float]:
    """Batch size → samples to the target; empty where nothing is known."""
    if not known:
        return {}
    if len({work.batch for work in known}) > 1:
        model = fit_samples(known)
        return {batch: model.samples(batch).value for batch in batches}
    base = Work(known[0].batch, sum(work.samples for work in known) / len(known))
    return {batch: base.samples * growth(base.batch, batch, noise_scale) for batch in batches}


def spread_by_batch(batches: Iterable[int], known: Sequence[Work]) -> dict[int, float]:
    """Standard deviation of their logarithm, where trainings at several batch sizes tell it; else empty."""
    if len({work.batch for work in known}) < 2:
        return {}
    model = fit_samples(known)
    return {batch: model.samples(batch).log_spread for batch in batches}


def growth(base: int, batch: int, noise_scale: float | None) -> float:
    """How many times the samples of one batch size another needs; 1 where no noise is known."""
    if noise_scale is None:
        return 1.0
    return (noise_scale + batch) / (noise_scale + base)


def at_one_batch(parts: Sequence[Work], noise_scale: float | None) -> Work | None:
    """A training over several batch sizes as if it had kept to its last one."""
    if not parts or sum(part.samples for part in parts) <= 0:
        return None
    last = parts[-1].batch
    samples = sum(one.samples * growth(one.batch, last, noise_scale) for one in parts)
    return Work(last, samples)


@dataclass(frozen=True)
class OtherNoise:
    """What is known of another job's gradient noise."""

    noise_scale: float  # φ that its samples-to-target follow
    base_batch: int  # its smallest batch size
    first_noise: float | None  # noise scale at the beginning of its training


def universal_growth(
    base_batch: int, batch: int, largest_batch: int, first_noise: float | None, others: Sequence[OtherNoise]
) -> Estimate:
    """How many times the samples of the smallest batch size another needs, of a job that was not trained yet."""
    logs, weights = _likely_scales(base_batch, largest_batch, first_noise, others)
    growths = np.log((np.exp(logs) + batch) / (np.exp(logs) + base_batch))
    middle = float(growths[np.searchsorted(np.cumsum(weights), 0.5)])
    spread = float(np.sqrt(weights @ (growths - middle) ** 2))
    # A learning rate that does not grow with the batch makes samples fall with it: the noise cannot tell.
    return spread_around(exp(middle), hypot(spread, FALL_SPREAD * log(batch / base_batch)))


def _likely_scales(
    base_batch: int, largest_batch: int, first_noise: float | None, others: Sequence[OtherNoise]
) -> tuple[Array, Array]:
    """Values of log φ, and how likely each is.

    Two things tell: people offer batch sizes that still pay, and the first noise, which may be far off: so it has
    a distribution with wide flanks (Student's), and a first noise that no job can have is passed over.
    """
    logs = np.linspace(log(base_batch) - 5.0, log(largest_batch) + 10.0, 301)
    weights = -0.5 * ((logs - log(PAYS_AT * largest_batch)) / PAYS_SPREAD) ** 2
    known = [log(other.noise_scale / other.first_noise) for other in others if other.first_noise]
    if first_noise is not None and known:
        apart = (logs - log(first_noise) - fmean(known)) / (FIRST_NOISE_SPREAD * (1.0 + 1.0 / len(known)) ** 0.5)
        weights = weights - 2.0 * np.log1p(apart**2 / 3.0)
    weights = np.exp(weights - weights.max())
    return logs, weights / weights.sum()


def universal_noise_scale(first_noise: float | None, base_batch: int, others: Sequence[OtherNoise]) -> float:
    """φ of a job: its first noise, or its smallest batch, times what other jobs had of it; ∞ without others."""
    if first_noise is not None:
        growths = [log(other.noise_scale / other.first_noise) for other in others if other.first_noise]
        if growths:
            return first_noise * exp(fmean(growths))
    growths = [log(other.noise_scale / other.base_batch) for other in others]
    return base_batch * exp(fmean(growths)) if growths else inf
