"""From progress points to a throughput with its interval."""

from __future__ import annotations

import random

import pytest

from mlcd.core.progress import Point
from mlcd.forecast.throughput import first_step_seconds, lost_seconds, steady_since, throughput_after


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


def test_a_beginning_that_was_different_is_left_out() -> None:
    compiling = [Point(n * 0.5, n, 5.0 * n * 0.5) for n in range(1, 7)]
    fast = [Point(3 + n * 0.25, 6 + n, 15.0 + 100.0 * n * 0.25) for n in range(1, 41)]
    assert steady_since(compiling + fast, 0.0) == pytest.approx(3.0, abs=0.8)
    assert steady_since(steady(100.0, 20.0), 2.0) == 2.0


def test_of_a_beginning_that_is_left_out_only_the_time_that_its_samples_did_not_need_is_lost() -> None:
    half = [Point(n * 0.5, n, 50.0 * n * 0.5) for n in range(1, 9)]  # until 4 s
    fast = [Point(4 + n * 0.25, 8 + n, 200.0 + 100.0 * n * 0.25) for n in range(1, 41)]
    assert lost_seconds(half + fast, 0.5, 4.0) == pytest.approx(3.5 - 1.75)
    still = [Point(n * 0.5, n, 0.0) for n in range(1, 9)]
    late = [Point(4 + n * 0.25, 8 + n, 100.0 * n * 0.25) for n in range(1, 41)]
    assert lost_seconds(still + late, 0.5, 4.0) == pytest.approx(3.5)
    assert lost_seconds(steady(100.0, 20.0), 2.0, 2.0) == 0.0


def test_a_rate_that_swings_all_the_time_has_no_beginning_and_says_how_much_it_swings() -> None:
    left_out = []
    for seed in range(100):
        draw, points, samples = random.Random(seed), [Point(0.0, 1, 0.0)], 0.0
        for step in range(1, 41):
            samples += draw.uniform(5.0, 15.0)
            points.append(Point(step * 0.25, step + 1, samples))
        left_out.append(steady_since(points, 0.0) > 0.0)
        seen = throughput_after(points, 0.0)
        assert seen is not None
        assert 0.08 < seen.spread < 0.5
    assert sum(left_out) <= 10


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
