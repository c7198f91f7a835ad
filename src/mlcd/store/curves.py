"""Training curves: millions of rows, written in bulk, read thinned out.

Thinning does not read what it leaves out. For at most n points of a curve the time between its first and
its last is cut into n − 1 steps, and a recursive query hops over the key's tree: the first row, then the
first row at least one step later, and so on, O(n log rows).

The attempts of a training make one line: seconds count from the launch of the first, samples from the
checkpoint that an attempt went on from; steps are the attempt's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, Row, Select, Table, func, literal, select

from mlcd.core.progress import MetricPoint, Point
from mlcd.core.records import TaskRecord
from mlcd.core.run import Attempt
from mlcd.store.database import insert_or_skip
from mlcd.store.documents import read, sound
from mlcd.store.tables import attempts, metrics, points, series, tasks

T = TypeVar("T")


def add_points(connection: Connection, task: int, new: Sequence[Point]) -> None:
    """Append to the progress of a task; moments that are there already are passed over."""
    rows = [{"task": task, "seconds": p.seconds, "steps": p.steps, "samples": p.samples} for p in new]
    if rows:
        connection.execute(insert_or_skip(connection, points), rows)


def add_metrics(connection: Connection, task: int, new: Sequence[MetricPoint]) -> None:
    """Append to the metrics of a task, likewise."""
    numbers = _series_with(connection, task, {sound(point.name) for point in new})
    rows = [{"series": numbers[sound(p.name)], "seconds": p.seconds, "step": p.step, "value": p.value} for p in new]
    if rows:
        connection.execute(insert_or_skip(connection, metrics), rows)


def all_points(connection: Connection, job_id: str, most: int | None = None) -> tuple[Point, ...]:
    """Progress of all tasks in one line; at most so many points, first and last included."""
    line = [
        Point(row.seconds + task.later_seconds, _number(row.steps), _number(row.samples) + task.samples_before)
        for task in _attempts(connection, job_id)
        for row in _curve(connection, points.c.task, task.number, most)
    ]
    return tuple(_evenly(line, most))


def all_metrics(connection: Connection, job_id: str, most: int | None = None) -> tuple[MetricPoint, ...]:
    """Metrics of all tasks in one line, by time; of each name at most so many, first and last included."""
    lines: dict[str, list[MetricPoint]] = {}
    for task in _attempts(connection, job_id):
        for name, number in _series(connection, task.number).items():
            curve = _curve(connection, metrics.c.series, number, most)
            lines.setdefault(name, []).extend(
                MetricPoint(row.seconds + task.later_seconds, _number(row.step), name, _number(row.value))
                for row in curve
            )
    thin = [point for line in lines.values() for point in _evenly(line, most)]
    return tuple(sorted(thin, key=lambda point: point.seconds))


@dataclass(frozen=True)
class _AttemptTask:
    """A task's part of the line."""

    number: int
    later_seconds: float  # than the first attempt it was launched
    samples_before: float


def _attempts(connection: Connection, job_id: str) -> list[_AttemptTask]:
    """The tasks of a job that have curves, in order."""
    of_task = (attempts.c.job_id == tasks.c.job_id) & (attempts.c.task_id == tasks.c.id)
    has_curves = (
        select(points.c.task).where(points.c.task == tasks.c.number).exists()
        | select(series.c.task).where(series.c.task == tasks.c.number).exists()
    )
    query = select(tasks.c.number, tasks.c.doc, attempts.c.doc).join_from(tasks, attempts, of_task, isouter=True)
    rows = connection.execute(query.where(tasks.c.job_id == job_id, has_curves).order_by(tasks.c.number)).all()
    launches = [read(TaskRecord, task).intended_at for _, task, _ in rows]
    before = [read(Attempt, attempt).samples_before if attempt else 0.0 for _, _, attempt in rows]
    return [
        _AttemptTask(row[0], at - launches[0], samples) for row, at, samples in zip(rows, launches, before, strict=True)
    ]


def _series_with(connection: Connection, task: int, names: set[str]) -> dict[str, int]:
    """The number of each name, new names included."""
    missing = sorted(names - set(_series(connection, task)))
    if missing:
        rows = [{"task": task, "name": name} for name in missing]
        connection.execute(insert_or_skip(connection, series), rows)
    return _series(connection, task)


def _series(connection: Connection, task: int) -> dict[str, int]:
    """The metrics of a task by name."""
    query = select(series.c.name, series.c.number).where(series.c.task == task).order_by(series.c.number)
    return {row.name: row.number for row in connection.execute(query)}


def _evenly(line: list[T], most: int | None) -> list[T]:
    """At most so many of a line joined from several curves, the first and the last among them."""
    if most is None or len(line) <= most:
        return line
    gap = (len(line) - 1) / max(1, most - 1)
    return [line[len(line) - 1 - round(index * gap)] for index in reversed(range(most))]


def _curve(connection: Connection, key: Column[int], number: int, most: int | None) -> Sequence[Row[Any]]:
    """The rows of one curve by time, at most that many, the first and the last among them."""
    table: Table = key.table
    query = select(table).where(key == number).order_by(table.c.seconds)
    if most is None:
        return connection.execute(query).all()
    rows = connection.execute(query.limit(most + 1)).all()
    return rows if len(rows) <= most else _thinned(connection, key, number, most)


def _thinned(connection: Connection, key: Column[int], number: int, most: int) -> Sequence[Row[Any]]:
    seconds = key.table.c.seconds
    # Two queries, because SQLite looks either end up in the tree but reads all rows for both at once.
    first = connection.execute(select(func.min(seconds)).where(key == number)).scalar_one()
    last = connection.execute(select(func.max(seconds)).where(key == number)).scalar_one()
    newest = connection.execute(select(key.table).where(key == number, seconds == last)).all()
    if most < 2:
        return newest
    rows = connection.execute(_hops(key, number, first, last, (last - first) / (most - 1))).all()
    return [*rows[: most - 1], *newest]


def _hops(key: Column[int], number: int, first: float, last: float, step: float) -> Select[Any]:
    """The first row, then each first row at least a step after the one before, without the last.

    The last is left out inside the recursion: a condition outside makes SQLite walk the whole curve.
    """
    table: Table = key.table
    picked = select(literal(first, table.c.seconds.type).label("seconds")).cte("picked", recursive=True)
    later = table.alias("later")
    following = (
        select(func.min(later.c.seconds))
        .where(later.c[key.name] == number, later.c.seconds >= picked.c.seconds + step, later.c.seconds < last)
        .scalar_subquery()
    )
    picked = picked.union_all(select(following).where(picked.c.seconds.is_not(None)))
    return select(table).join(picked, (key == number) & (table.c.seconds == picked.c.seconds)).order_by(table.c.seconds)


def _number(stored: float | None) -> float:
    return math.nan if stored is None else stored
