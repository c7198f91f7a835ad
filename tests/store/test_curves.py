"""Training curves are stored once and read thinned out."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing

import pytest

from mlcd.core.progress import MetricPoint, Point
from mlcd.core.run import Attempt
from mlcd.core.task import TaskKind
from mlcd.store import Store, open_store
from store.store_samples import DEPLOYMENT, job, task

FIRST = task(1, kind=TaskKind.TRAINING)
SECOND = task(2, kind=TaskKind.TRAINING)  # launched 100 s later


@pytest.fixture
def training(store: Store) -> Store:
    """A store with a training in two attempts, the second from a checkpoint at 64 samples."""
    store.add_job(job())
    store.add_task(task(1))
    for number, record in enumerate((FIRST, SECOND), start=1):
        store.add_task(record)
        attempt = Attempt(record.id, number, DEPLOYMENT, record.intended_at, samples_before=64.0 * (number - 1))
        store.put_attempt("digits-1a2b", attempt)
    return store


def line(count: int) -> list[Point]:
    return [Point(float(second), second * 2.0, second * 32.0) for second in range(count)]


def test_points_sent_again_are_stored_once(training: Store) -> None:
    training.add_points("digits-1a2b", FIRST.id, line(5), ())
    training.add_points("digits-1a2b", FIRST.id, line(8), ())
    training.add_points("digits-1a2b", FIRST.id, (), ())
    assert training.points("digits-1a2b") == tuple(line(8))


def test_stretches_make_one_line(training: Store) -> None:
    training.add_points("digits-1a2b", FIRST.id, line(3), [MetricPoint(1.0, 1.0, "loss", 0.5)])
    training.add_points("digits-1a2b", SECOND.id, line(2), [MetricPoint(1.0, 1.0, "loss", 0.4)])
    assert training.points("digits-1a2b") == (*line(3), Point(100.0, 0.0, 64.0), Point(101.0, 2.0, 96.0))
    assert [point.seconds for point in training.metrics("digits-1a2b")] == [1.0, 101.0]


def test_metrics_are_kept_by_name_and_told_by_time(training: Store) -> None:
    loss = [MetricPoint(float(n), float(n), "loss", 1.0 / (n + 1)) for n in range(3)]
    accuracy = [MetricPoint(n + 0.5, float(n), "accuracy", n / 3) for n in range(3)]
    training.add_points("digits-1a2b", FIRST.id, (), [*loss, *accuracy])
    training.add_points("digits-1a2b", FIRST.id, (), loss)
    together = sorted([*loss, *accuracy], key=lambda point: point.seconds)
    assert training.metrics("digits-1a2b") == tuple(together)


def test_a_loss_that_is_no_number_is_kept_as_such(training: Store) -> None:
    sent = [MetricPoint(0.0, 0.0, "lo\0ss", math.nan), MetricPoint(1.0, 1.0, "lo\0ss", math.inf)]
    training.add_points("digits-1a2b", FIRST.id, [Point(0.0, math.nan, 1.0)], sent)
    nan, infinity = training.metrics("digits-1a2b")
    assert nan.name == "loss"
    assert math.isnan(nan.value)
    assert infinity.value == math.inf
    assert math.isnan(training.points("digits-1a2b")[0].steps)


def test_curves_are_of_their_job(training: Store) -> None:
    training.add_points("digits-1a2b", FIRST.id, line(3), ())
    training.add_job(job("other"))
    assert training.points("other") == ()
    assert training.metrics("other") == ()


@pytest.mark.parametrize("most", [1, 2, 10, 999])
@pytest.mark.parametrize("shape", ["even", "bursts"])
def test_a_thinned_curve_keeps_both_ends_and_the_limit(training: Store, shape: str, most: int) -> None:
    seconds = [float(n) if shape == "even" else n // 50 * 1000.0 + n * 0.1 for n in range(1000)]
    curve = [Point(at, at, at) for at in seconds]
    training.add_points("digits-1a2b", FIRST.id, curve, [MetricPoint(at, at, "loss", at) for at in seconds])
    points = training.points("digits-1a2b", most=most)
    assert len(points) <= most
    assert points[-1] == curve[-1]
    assert points[0] == curve[0] or most == 1
    assert set(points) <= set(curve)
    assert list(points) == sorted(points, key=lambda point: point.seconds)
    assert [metric.seconds for metric in training.metrics("digits-1a2b", most=most)] == [p.seconds for p in points]


def test_an_even_curve_is_thinned_evenly(training: Store) -> None:
    training.add_points("digits-1a2b", FIRST.id, line(1001), ())
    assert [point.seconds for point in training.points("digits-1a2b", most=11)] == [100.0 * n for n in range(11)]


def test_a_short_curve_is_not_thinned(training: Store) -> None:
    bursts = [Point(at, 1.0, 1.0) for at in (0.0, 0.1, 0.2, 1000.0)]
    training.add_points("digits-1a2b", FIRST.id, bursts, ())
    assert training.points("digits-1a2b", most=4) == tuple(bursts)


def test_the_limit_holds_for_all_stretches_together(training: Store) -> None:
    for record in (FIRST, SECOND):
        training.add_points("digits-1a2b", record.id, line(90), [MetricPoint(n, n, "loss", n) for n in range(90)])
    points = training.points("digits-1a2b", most=50)
    assert len(points) == 50
    assert (points[0].seconds, points[-1].seconds) == (0.0, 189.0)
    assert len(training.metrics("digits-1a2b", most=50)) == 50


def test_thinning_does_not_read_what_it_leaves_out() -> None:
    with closing(open_store("sqlite://")) as store:
        store.add_job(job())
        store.add_task(FIRST)
        store.add_points("digits-1a2b", FIRST.id, line(30_000), ())
        thinned = _hundreds_of_instructions(store, most=50)
        assert thinned < 100 < _hundreds_of_instructions(store, most=None)


def _hundreds_of_instructions(store: Store, most: int | None) -> int:
    """How hard SQLite works for it."""
    ticks = []
    with store._database.reading() as connection:
        sqlite = connection.connection.driver_connection
        assert isinstance(sqlite, sqlite3.Connection)
        sqlite.set_progress_handler(lambda: ticks.append(1), 100)
    store.points("digits-1a2b", most=most)
    return len(ticks)
