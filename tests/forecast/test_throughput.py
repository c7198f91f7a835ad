"""From progress points to a throughput with its interval."""

from __future__ import annotations

import random

import pytest

from mlcd.core.progress import Point
from mlcd.forecast.throughput import first_step_seconds, throughput_after


def steady(rate: float, seconds: float, every: float = 0.5) -> list[Point]:
    return [Point(n * every, n, rate * n * every) for n in range(int(seconds / every) + 1)]


def test_a_steady_program_has_its_rate_and_hardly_any_interval() -> None:
    seen = throughput_after(steady(100.0, 20.0), 0.0)
    assert seen is not None
    assert seen.samples_per_second == pytest.approx(100.0)
    assert seen.interval_share < 1e-6


def test_the_warm_up_does_not_count() -> None:
    slow = [Point(n * 0.5, n, 10.0 * n * 0.5) for n in range(1, 11)]
    fast = [Point(5 + n * 0.5, 10 + n, 50.0 + 100.0 * n * 0.5) for n in range(1, 41)]
    seen = throughput_after(slow + fast, 5.0)
    assert seen is not None
    assert seen.samples_per_second == pytest.approx(100.0, rel=0.02)


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    covered = sum(_covers(random.Random(seed)) for seed in range(300))
    assert 0.88 <= covered / 300 <= 0.99


def _covers(draw: random.Random) -> bool:
    points, now = [Point(0.0, 1, 32.0)], 0.0
    for step in range(2, 202):
        now += 0.1 * (1 + 0.3 * draw.uniform(-1, 1))
        points.append(Point(now, step, 32.0 * step))
    seen = throughput_after(points, 0.0)
    assert seen is not None
    return seen.low <= 320.0 <= seen.high


def test_slow_steps_between_reports_do_not_look_like_a_lower_rate() -> None:
    # one step of 32 samples every 3 s, reported every 0.5 s: the rate is that of the step ends
    points = [Point(n * 0.5, n // 6, 32.0 * (n // 6)) for n in range(1, 64)]
    seen = throughput_after(points, 0.0)
    assert seen is not None
    assert seen.samples_per_second == pytest.approx(32 / 3, rel=0.01)


@pytest.mark.parametrize("points", [[], [Point(0, 0, 0)], [Point(0, 1, 8)], [Point(0, 1, 8), Point(1, 1, 8)]])
def test_too_little_is_nothing(points: list[Point]) -> None:
    assert throughput_after(points, 0.0) is None


def test_two_points_give_a_rate_that_is_called_unsure() -> None:
    seen = throughput_after([Point(0, 1, 8), Point(2, 2, 16)], 0.0)
    assert seen is not None
    assert seen.interval_share >= 0.25


def test_the_first_step_is_found() -> None:
    assert first_step_seconds([Point(1.0, 0, 0), Point(2.0, 3, 96)]) == 2.0
    assert first_step_seconds([Point(1.0, 0, 0)]) is None
