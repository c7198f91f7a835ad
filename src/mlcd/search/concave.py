"""The concave prior of the MLCD paper (section II.D): what measured scale-outs say about the others of their line.

A line is one instance type at one batch size with so many parameter servers. Along it the speed f over the training
nodes x is concave and f(0) = 0: computing limits few nodes, exchanging gradients limits many. So between two measured
points f lies above their chord, and beyond them below it: one node's speed y bounds that of x nodes by x·y, and two
points of declining speed bound all larger scale-outs by less than what was seen. Speeds count with the ends of their
95 % intervals, whichever bounds less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise

import numpy as np

from mlcd.core.trial import Measurement, Trial
from mlcd.forecast.training_forecast import Z95, speed_error
from mlcd.search.arrays import Floats, Mask
from mlcd.search.table import StudyView
from mlcd.search.trials import measured_trials

_LEAST_SHARE = 1e-3  # of the fastest measured speed: a chord that falls below zero says no more than "slow"


@dataclass(frozen=True, eq=False)
class Bounds:
    """Samples per second that a deployment cannot fall below or exceed, as far as the prior holds; (m,) each."""

    low: Floats
    high: Floats


@dataclass(frozen=True)
class _Point:
    """A measured scale-out."""

    workers: float
    low: float
    high: float


_ORIGIN = _Point(0.0, 0.0, 0.0)


def speed_bounds(view: StudyView, z: float = Z95) -> Bounds:
    """What the measured scale-outs of each line leave possible, their errors taken z times."""
    count = len(view.table.nodes)
    low, high = np.zeros(count), np.full(count, np.inf)
    for mine, trials in _lines(view):
        points = [_ORIGIN, *_points(trials, z)]
        workers = view.table.workers[mine]
        low[mine] = np.max([_chord(a, b, workers) for a, b in combinations(points, 2)], axis=0)
        most = np.min([_beyond(a, b, workers) for a, b in combinations(points, 2)], axis=0)
        high[mine] = np.maximum(np.maximum(most, low[mine]), _LEAST_SHARE * max(p.high for p in points))
    return Bounds(low, high)


def past_the_peak(view: StudyView) -> Mask:
    """Scale-outs beyond two neighbouring measured ones of declining speed (m,): none of them is tried."""
    mask = np.zeros(len(view.table.nodes), dtype=bool)
    for mine, trials in _lines(view):
        peak = _declines_at(trials)
        if peak is not None:
            mask |= mine & (view.table.nodes > peak)
    return mask


def _declines_at(trials: list[Trial]) -> int | None:
    """The fewest nodes at which more nodes were slower, by more than the measurements' errors."""
    for fewer, more in pairwise(trials):
        if fewer.measurement is None or more.measurement is None:
            continue
        error = float(np.hypot(speed_error(fewer.measurement), speed_error(more.measurement)))
        if more.measurement.samples_per_second < fewer.measurement.samples_per_second * np.exp(-error):
            return more.deployment.nodes
    return None


def _chord(a: _Point, b: _Point, workers: Floats) -> Floats:
    """At least so fast between two points; 0 elsewhere."""
    share = (workers - a.workers) / (b.workers - a.workers)
    inside = (share >= 0.0) & (share <= 1.0)
    return np.where(inside, (1.0 - share) * a.low + share * b.low, 0.0)


def _beyond(a: _Point, b: _Point, workers: Floats) -> Floats:
    """At most so fast on either side of two points; inf between them."""
    share = (workers - a.workers) / (b.workers - a.workers)
    after = share * b.high - (share - 1.0) * a.low
    before = (1.0 - share) * a.high + share * b.low
    return np.where(share >= 1.0, after, np.where(share <= 0.0, before, np.inf))


def _lines(view: StudyView) -> Iterator[tuple[Mask, list[Trial]]]:
    """The rows of each line that has measurements, and these by their nodes."""
    table = view.table
    columns = (table.kind, table.batch, table.servers, table.server_kind)
    lines: dict[tuple[float, ...], list[Trial]] = {}
    for trial in measured_trials(view.study):
        row = table.position.get(trial.deployment)
        if row is not None:
            line = tuple(float(column[row]) for column in columns)
            lines.setdefault(line, []).append(trial)
    for line, trials in lines.items():
        mine = np.all([column == value for column, value in zip(columns, line, strict=True)], axis=0)
        yield mine, sorted(trials, key=lambda trial: trial.deployment.nodes)


def _points(trials: list[Trial], z: float) -> Iterator[_Point]:
    """The measured scale-outs; the same one at two prices is one point."""
    for workers, group in groupby(trials, key=lambda trial: trial.deployment.workers):
        ends = [_ends(trial.measurement, z) for trial in group if trial.measurement is not None]
        yield _Point(float(workers), min(low for low, _ in ends), max(high for _, high in ends))


def _ends(measurement: Measurement, z: float) -> tuple[float, float]:
    """Of the interval of what the training will see."""
    width = float(np.exp(z * speed_error(measurement)))
    return measurement.samples_per_second / width, measurement.samples_per_second * width
