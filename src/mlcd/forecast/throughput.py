"""From progress points to a throughput with its interval.

Steps are not independent readings: the clock runs between reports, garbage collection and data loading
come in bursts. So the time after the warm-up is cut into segments of about equal length (batch means),
and the interval is Student's over the segments' rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from scipy.stats import t as student

from mlcd.core.progress import Point

MOST_SEGMENTS = 20
UNSURE_SHARE = 0.3  # half-width ÷ mean where a single segment is all there is


@dataclass(frozen=True)
class Throughput:
    """Samples a second over a stretch of time, with the 95 % interval of the mean."""

    samples_per_second: float
    low: float
    high: float
    steps: float
    samples: float
    seconds: float  # of the stretch
    segments: int

    @property
    def interval_share(self) -> float:
        """Half-width of the interval ÷ mean."""
        return (self.high - self.low) / 2 / self.samples_per_second


def first_step_seconds(points: Sequence[Point]) -> float | None:
    """When the first step had been seen."""
    return next((point.seconds for point in points if point.steps > 0), None)


def last_step_seconds(points: Sequence[Point]) -> float | None:
    """When the newest step was first seen."""
    steps = points[-1].steps if points else 0.0
    return next((point.seconds for point in points if point.steps >= steps > 0), None)


def throughput_after(points: Sequence[Point], seconds: float) -> Throughput | None:
    """The throughput seen from that moment on; None while there is too little to tell."""
    moves = _moves([point for point in points if point.seconds >= seconds and point.steps > 0])
    if len(moves) < 2 or moves[-1].samples <= moves[0].samples:
        return None
    segments = _segments(moves)
    first, last = moves[0], moves[-1]
    span = last.seconds - first.seconds
    mean = (last.samples - first.samples) / span
    half = _half_width(segments, mean)
    return Throughput(
        mean,
        max(mean - half, mean * 0.01),
        mean + half,
        last.steps - first.steps,
        last.samples - first.samples,
        span,
        len(segments),
    )


def _moves(points: Sequence[Point]) -> list[Point]:
    """Only the points at which something had been done since the one before: their times are step ends."""
    moves: list[Point] = []
    for point in points:
        if not moves or (point.samples > moves[-1].samples and point.seconds > moves[-1].seconds):
            moves.append(point)
    return moves


def _segments(moves: Sequence[Point]) -> list[float]:
    """Rates of up to MOST_SEGMENTS stretches of about equal length."""
    length = (moves[-1].seconds - moves[0].seconds) / MOST_SEGMENTS
    rates, begin = [], moves[0]
    for point in moves[1:]:
        if point.seconds - begin.seconds >= length * 0.999:
            rates.append((point.samples - begin.samples) / (point.seconds - begin.seconds))
            begin = point
    return rates


def _half_width(rates: Sequence[float], mean: float) -> float:
    """Of the 95 % interval of the mean rate."""
    count = len(rates)
    if count < 2:
        return UNSURE_SHARE * mean
    middle = sum(rates) / count
    variance = sum((rate - middle) ** 2 for rate in rates) / (count - 1)
    return float(student.ppf(0.975, count - 1)) * sqrt(variance / count)
