"""What a training shows of its conditions: the batch size of its steps and the size of its model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlcd.core.conditions import Conditions
from mlcd.core.progress import Point, Progress

PARAMETERS = "mlcd/parameters"  # a metric that the worker reports
LEAST_SECONDS = 10.0  # of steady steps, before they say something …
LEAST_STEPS = 8  # … and so many of them
_ALIKE = 0.1  # by which the two halves of steady steps may differ


@dataclass(frozen=True)
class Steady:
    """Conditions that have held for a while."""

    conditions: Conditions
    since: float  # seconds of the task


def steady_conditions(progress: Progress) -> Steady | None:
    """As they have been lately; None while there is too little to tell, or while they change."""
    points = [point for point in progress.points if point.steps > 0]
    begin = _begin(points)
    if begin is None:
        return None
    size, parameters = _batch(points[begin:]), progress.latest(PARAMETERS)
    middle = (begin + len(points)) // 2
    halves = (_batch(points[begin : middle + 1]), _batch(points[middle:]))
    if size is None or any(half is None or abs(half / size - 1.0) > _ALIKE for half in halves):
        return None
    reported = [point.seconds for point in progress.metrics if point.name == PARAMETERS]
    if reported and reported[-1] > points[begin].seconds and len(reported) > 1:
        return None  # the model has just become another
    return Steady(Conditions(batch_size=size, parameters=parameters or 0.0), points[begin].seconds)


def _begin(points: Sequence[Point]) -> int | None:
    """Where the newest part that is long enough begins."""
    for index in range(len(points) - 1, -1, -1):
        seconds = points[-1].seconds - points[index].seconds
        steps = points[-1].steps - points[index].steps
        if seconds >= LEAST_SECONDS and steps >= LEAST_STEPS:
            return index
    return None


def _batch(points: Sequence[Point]) -> float | None:
    """Samples of a step; None: there was none."""
    steps = points[-1].steps - points[0].steps
    samples = points[-1].samples - points[0].samples
    return samples / steps if steps > 0 and samples > 0 else None
