"""How many samples a job is expected to need at each batch size, from what was trained and what noise was seen.

    φ   noise scale, samples        samples(B) = samples(B₀) · (φ + B) ÷ (φ + B₀)

Trainings of the same job to the same target at two batch sizes or more tell φ by themselves (statistical.py). With one
of them its noise over the whole training does. With none but the user's word, the batch sizes that the job offers tell, and
its noise at the beginning, where other jobs show how that compares with a whole training's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, log
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


@dataclass(frozen=True)
class OtherNoise:
    """What is known of another job's gradient noise."""

    noise_scale: float  # φ that its samples-to-target follow
    first_noise: float | None  # noise scale at the beginning of its training


@dataclass(frozen=True)
class NoiseKnown:
    """What is known of a job's gradient noise before it is trained."""

    whole: float | None = None  # φ over a whole training of it
    first: float | None = None  # φ at its beginning
    others: tuple[OtherNoise, ...] = ()


def samples_needed(batches: Sequence[int], known: Sequence[Work], noise: NoiseKnown) -> dict[int, Estimate]:
    """Batch size → samples to the target, from trainings at one batch size or several; empty where there is none."""
    if not known:
        return {}
    if len({work.batch for work in known}) > 1:
        model = fit_samples(known)
        return {batch: model.samples(batch) for batch in batches}
    base, samples = known[0].batch, fmean(work.samples for work in known)
    return {batch: _growth_by_noise(base, batch, max(batches), noise).scaled(samples) for batch in batches}


def _growth_by_noise(base: int, batch: int, largest: int, noise: NoiseKnown) -> Estimate:
    """How many times the samples of one batch size another needs; one that is no other needs as many."""
    if batch == base:
        return spread_around(1.0, 0.0)
    if noise.whole is not None:
        return spread_around(growth(base, batch, noise.whole), _fall_spread(base, batch))
    return universal_growth(base, batch, largest, noise.first, noise.others)


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


def universal_growth(
    base_batch: int, batch: int, largest_batch: int, first_noise: float | None, others: Sequence[OtherNoise]
) -> Estimate:
    """How many times the samples of the smallest batch size another needs, of a job that was not trained yet."""
    logs, weights = _likely_scales(base_batch, largest_batch, first_noise, others)
    growths = np.log((np.exp(logs) + batch) / (np.exp(logs) + base_batch))
    middle = float(growths[np.searchsorted(np.cumsum(weights), 0.5)])
    spread = float(np.sqrt(weights @ (growths - middle) ** 2))
    return spread_around(exp(middle), hypot(spread, _fall_spread(base_batch, batch)))


def _fall_spread(base_batch: int, batch: int) -> float:
    """A learning rate that does not grow with the batch makes samples fall with it: the noise cannot tell."""
    return FALL_SPREAD * abs(log(batch / base_batch))


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
