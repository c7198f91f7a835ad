"""Time and money of the whole training."""

from __future__ import annotations

import pytest

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Belief, Study
from mlcd.core.trial import Measurement
from mlcd.forecast.whole import UNSEEN_SHARE, Z95, forecast_belief, forecast_training

HERE = Deployment(Offer("test", InstanceType("c5"), 2.0, 4), nodes=3, batch_size=64)
STUDY = Study(Goal(Aim.FASTEST), (HERE,), samples=36_000.0, start_seconds=60.0)


def test_the_forecast_counts_the_start_and_every_node() -> None:
    forecast = forecast_training(STUDY, HERE, Measurement(10.0, 10.0, 10.0))
    assert forecast.seconds == pytest.approx(3660.0)
    assert forecast.usd == pytest.approx(6.0 * 3660.0 / 3600.0)


def test_a_perfect_measurement_still_leaves_what_a_probe_cannot_see() -> None:
    forecast = forecast_training(STUDY, HERE, Measurement(10.0, 10.0, 10.0))
    assert forecast.high_seconds - 60.0 == pytest.approx(3600.0 * (1 + Z95 * UNSEEN_SHARE), rel=1e-3)
    assert forecast.low_seconds < forecast.seconds < forecast.high_seconds
    assert forecast.low_usd < forecast.usd < forecast.high_usd


def test_a_wider_interval_spreads_the_forecast() -> None:
    narrow = forecast_training(STUDY, HERE, Measurement(10.0, 9.8, 10.2))
    wide = forecast_training(STUDY, HERE, Measurement(10.0, 8.0, 12.0))
    assert wide.high_seconds > narrow.high_seconds
    assert wide.seconds == narrow.seconds


def test_the_work_may_depend_on_the_batch_size() -> None:
    study = Study(Goal(Aim.FASTEST), (HERE,), samples=36_000.0, samples_at={64: 72_000.0})
    assert forecast_training(study, HERE, Measurement(10.0, 10.0, 10.0)).seconds == pytest.approx(7200.0)


def test_a_belief_is_forecast_with_its_own_band() -> None:
    forecast = forecast_belief(STUDY, Belief(HERE, 10.0, 5.0, 20.0))
    assert forecast.high_seconds - 60.0 == pytest.approx(7200.0)
    assert forecast.low_seconds - 60.0 == pytest.approx(1800.0)
