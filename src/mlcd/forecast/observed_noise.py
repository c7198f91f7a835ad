"""The gradient noise scale as a training reported it; what was not yet stable does not count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log

from mlcd.core.progress import MetricPoint, Progress

SCALE, STABLE = "mlcd/noise_scale", "mlcd/noise_stable"  # metrics that the worker reports


def noise_now(progress: Progress) -> float | None:
    """In samples; None while it is not stable."""
    return _positive(progress.latest(SCALE)) if progress.latest(STABLE) else None


def noise_moves(progress: Progress) -> bool:
    """Whether it is measured and not stable yet."""
    return progress.latest(STABLE) == 0.0


@dataclass(frozen=True)
class NoiseMoments:
    """When the noise was first reported, and when it was first stable, in seconds of the task."""

    first: float
    stable: float | None


def noise_moments(metrics: Iterable[MetricPoint]) -> NoiseMoments | None:
    """The moments so far; None: no noise was reported."""
    readings = [point for point in metrics if point.name == STABLE]
    if not readings:
        return None
    first = min(point.seconds for point in readings)
    return NoiseMoments(first, min((point.seconds for point in readings if point.value > 0), default=None))


def noise_over_all(metrics: Iterable[MetricPoint]) -> float | None:
    """The mean (of the logarithm) over all stable readings of a training, in order."""
    scales = stable_readings(metrics)
    return exp(sum(log(scale) for scale in scales) / len(scales)) if scales else None


def stable_readings(metrics: Iterable[MetricPoint]) -> Sequence[float]:
    """Every scale that was reported while it was called stable."""
    scales, stable = [], False
    for point in sorted(metrics, key=lambda point: (point.seconds, point.name == SCALE)):
        if point.name == STABLE:
            stable = point.value > 0
        elif point.name == SCALE and stable and point.value > 0:
            scales.append(point.value)
    return scales


def _positive(scale: float | None) -> float | None:
    return scale if scale is not None and scale > 0 else None
