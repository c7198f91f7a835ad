from __future__ import annotations

import pytest

from mlcd.core.progress import MetricPoint, Progress
from mlcd.forecast.observed_noise import SCALE, STABLE, noise_moves, noise_now, noise_over_all


def reading(seconds: float, scale: float, stable: float) -> list[MetricPoint]:
    return [MetricPoint(seconds, 0, SCALE, scale), MetricPoint(seconds, 0, STABLE, stable)]


def test_what_is_not_stable_does_not_count() -> None:
    unstable = [*reading(1, 100.0, 1.0), *reading(2, 900.0, 0.0)]
    assert noise_now(Progress(metrics=tuple(unstable))) is None
    assert noise_over_all(unstable) == pytest.approx(100.0)
    assert noise_over_all(reading(1, 100.0, 0.0)) is None


def test_noise_that_was_measured_and_is_not_stable_moves() -> None:
    assert noise_moves(Progress(metrics=tuple(reading(1, 100.0, 0.0))))
    assert not noise_moves(Progress(metrics=tuple(reading(1, 100.0, 1.0))))
    assert not noise_moves(Progress())  # it was not measured


def test_over_a_whole_training_it_is_the_geometric_mean() -> None:
    metrics = [*reading(1, 100.0, 1.0), *reading(2, 400.0, 1.0)]
    assert noise_over_all(metrics) == pytest.approx(200.0)
    assert noise_now(Progress(metrics=tuple(metrics))) == 400.0
