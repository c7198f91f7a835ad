"""From progress points to a throughput with its interval.

Steps are not independent readings: the clock runs between reports, garbage collection and data loading
come in bursts. So the time after the warm-up is cut into segments of about equal length (batch means),
and the interval is Student's over the segments' rates.

Where the warm-up ends is not known beforehand: a program may compile once more at its second batch. As in simulations
(MSER, White 1997) as much of the beginning is left out as makes the standard error of the rest smallest, at most half,
and only where that helps a lot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from scipy.special import stdtrit

from mlcd.core.progress import Point

MOST_SEGMENTS = 20
UNSURE_SHARE = 0.3  # half-width ÷ mean where a single segment is all there is
LEAST_LEFT = 4  # segments that are never left out
MUCH_BETTER = 0.5  # of the standard error, below which a beginning is left out


@dataclass(frozen=True)
class Throughput:
    """Samples a second over a time, with the 95 % interval of the mean."""

    samples_per_second: float
    low: float
    high: float
    steps: float
    samples: float
    seconds: float  # of that time
    segments: int
    spread: float = 0.0  # standard deviation of the segments' rates ÷ mean: how unsteadily it went

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


def steady_since(points: Sequence[Point], seconds: float) -> float:
    """The moment from which the rate is steady: that moment itself, or later where the beginning was different."""
    moves = _moves([point for point in points if point.seconds >= seconds and point.steps > 0])
    spans = _spans(moves) if len(moves) > 2 else []
    errors = [_standard_error(spans[left_out:]) for left_out in range(max(0, len(spans) - LEAST_LEFT) + 1)]
    errors = errors[: len(spans) // 2 + 1]
    best = min(range(len(errors)), key=lambda left_out: errors[left_out], default=0)
    if best == 0 or errors[best] > MUCH_BETTER * errors[0]:
        return seconds
    return spans[best][0].seconds


def lost_seconds(points: Sequence[Point], begin: float, steady: float) -> float:
    """What that beginning took beyond the time that its samples take at the steady rate."""
    early = [point for point in points if begin <= point.seconds <= steady and point.steps > 0]
    later = throughput_after(points, steady)
    if steady <= begin or later is None:
        return 0.0
    needed = (early[-1].samples - early[0].samples) / later.samples_per_second
    return max(0.0, early[-1].seconds - early[0].seconds - needed)


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
        _deviation(segments) / mean,
    )


def _moves(points: Sequence[Point]) -> list[Point]:
    """Only the points at which something had been done since the one before: their times are step ends."""
    moves: list[Point] = []
    for point in points:
        if not moves or (point.samples > moves[-1].samples and point.seconds > moves[-1].seconds):
            moves.append(point)
    return moves


def _segments(moves: Sequence[Point]) -> list[float]:
    """Rates of up to MOST_SEGMENTS segments of about equal length."""
    return [_rate(begin, end) for begin, end in _spans(moves)]


def _spans(moves: Sequence[Point]) -> list[tuple[Point, Point]]:
    """Where they begin and end."""
    length = (moves[-1].seconds - moves[0].seconds) / MOST_SEGMENTS
    spans, begin = [], moves[0]
    for point in moves[1:]:
        if point.seconds - begin.seconds >= length * 0.999:
            spans.append((begin, point))
            begin = point
    return spans


def _rate(begin: Point, end: Point) -> float:
    return (end.samples - begin.samples) / (end.seconds - begin.seconds)


def _standard_error(spans: Sequence[tuple[Point, Point]]) -> float:
    """Of the mean rate, ÷ mean."""
    rates = [_rate(begin, end) for begin, end in spans]
    mean = sum(rates) / len(rates) if rates else 0.0
    return _deviation(rates) / sqrt(len(rates)) / mean if mean > 0 else 0.0


def _deviation(rates: Sequence[float]) -> float:
    """Standard deviation of the rates; 0 where there are fewer than two."""
    if len(rates) < 2:
        return 0.0
    middle = sum(rates) / len(rates)
    return sqrt(sum((rate - middle) ** 2 for rate in rates) / (len(rates) - 1))


def _half_width(rates: Sequence[float], mean: float) -> float:
    """Of the 95 % interval of the mean rate."""
    count = len(rates)
    if count < 2:
        return UNSURE_SHARE * mean
    return float(stdtrit(count - 1, 0.975)) * _deviation(rates) / sqrt(count)
