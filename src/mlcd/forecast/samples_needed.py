"""How many samples a job is expected to need at each batch size, from what was trained and what noise was seen.

    φ   noise scale, samples        samples(B) = samples(B₀) · (φ + B) ÷ (φ + B₀)

Trainings of the same job to the same target at two batch sizes or more tell φ by themselves (statistical.py);
with one of them, or none but the user's word, the measured gradient noise has to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from statistics import fmean

from mlcd.forecast.statistical import Work, fit_samples


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


def universal_noise_scale(first_noise: float | None, base_batch: int, others: Sequence[OtherNoise]) -> float:
    """φ of a job: its first noise, or its smallest batch, times what other jobs had of it; ∞ without others."""
    if first_noise is not None:
        growths = [log(other.noise_scale / other.first_noise) for other in others if other.first_noise]
        if growths:
            return first_noise * exp(fmean(growths))
    growths = [log(other.noise_scale / other.base_batch) for other in others]
    return base_batch * exp(fmean(growths)) if growths else inf
