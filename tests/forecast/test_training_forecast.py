"""Time and money of the whole training."""

from __future__ import annotations

from dataclasses import replace
from math import exp, hypot

import pytest

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Belief, Study
from mlcd.core.trial import Measurement
from mlcd.forecast.training_forecast import START_SHARE, UNSEEN_SHARE, Z95, forecast_belief, forecast_training

HERE = Deployment(Offer("test", InstanceType("c5"), 2.0, 4), nodes=3, batch_size=64)
STUDY = Study(Goal(Aim.FASTEST), (HERE,), samples=36_000.0, start_seconds=60.0)


def test_the_forecast_counts_the_start_and_every_node() -> None:
    forecast = forecast_training(STUDY, HERE, Measurement(10.0, 10.0, 10.0))
    assert forecast.seconds == pytest.approx(3660.0)
    assert forecast.usd == pytest.approx(6.0 * 3660.0 / 3600.0)


def test_a_training_of_seconds_costs_what_is_charged_at_least() -> None:
    short = replace(HERE, offer=replace(HERE.offer, least_seconds=60.0))
    study = replace(STUDY, samples=10.0, start_seconds=5.0)
    forecast = forecast_training(study, short, Measurement(10.0, 10.0, 10.0))
    assert forecast.seconds == pytest.approx(6.0)
    assert forecast.usd == forecast.low_usd == pytest.approx(6.0 * 60.0 / 3600.0)


def test_a_perfect_measurement_still_leaves_what_a_probe_cannot_see() -> None:
    forecast = forecast_training(STUDY, HERE, Measurement(10.0, 10.0, 10.0))
    speed, start = 3600.0 * (exp(Z95 * UNSEEN_SHARE) - 1.0), Z95 * START_SHARE * 60.0
    assert forecast.high_seconds == pytest.approx(3660.0 + hypot(speed, start))
    assert forecast.low_seconds < forecast.seconds < forecast.high_seconds
    assert forecast.low_usd < forecast.usd < forecast.high_usd


def test_a_wider_interval_spreads_the_forecast() -> None:
    narrow = forecast_training(STUDY, HERE, Measurement(10.0, 9.8, 10.2))
    wide = forecast_training(STUDY, HERE, Measurement(10.0, 8.0, 12.0))
    assert wide.high_seconds > narrow.high_seconds
    assert wide.seconds == narrow.seconds


def test_a_probe_that_went_unsteadily_spreads_the_forecast_however_long_it_was() -> None:
    steady = forecast_training(STUDY, HERE, Measurement(10.0, 10.0, 10.0))
    unsteady = forecast_training(STUDY, HERE, Measurement(10.0, 10.0, 10.0, spread=0.2))
    assert unsteady.seconds == steady.seconds
    assert unsteady.high_seconds > 1.25 * steady.high_seconds


def test_a_start_may_take_longer_than_the_probes() -> None:
    study = replace(STUDY, samples=36.0)
    forecast = forecast_training(study, HERE, Measurement(10.0, 10.0, 10.0))
    assert forecast.seconds == pytest.approx(63.6)
    assert forecast.high_seconds - forecast.seconds == pytest.approx(Z95 * START_SHARE * 60.0, rel=0.01)
    assert 0.0 < forecast.low_seconds < forecast.seconds


@pytest.mark.parametrize("share", [0.7, 1.0, 1.3])
@pytest.mark.parametrize("working", [5.0, 62.0, 63.0, 200.0, 2000.0])
def test_the_band_of_functions_holds_whatever_their_starts_take(working: float, share: float) -> None:
    life, start = 30.0, 11.4
    function = replace(HERE, offer=replace(HERE.offer, kind="function", lifetime_seconds=life))
    study = replace(STUDY, samples=10.0 * working, start_seconds=start)
    forecast = forecast_training(study, function, Measurement(10.0, 10.0, 10.0))
    took = share * start
    starts = 1 + working // (life - took)  # the last of them works for a part of its life only
    assert forecast.low_seconds <= working + starts * took <= forecast.high_seconds


def test_a_training_within_one_life_of_a_function_is_forecast_without_a_second_start() -> None:
    function = replace(HERE, offer=replace(HERE.offer, kind="function", lifetime_seconds=870.0))
    study = replace(STUDY, samples=2000.0, start_seconds=10.0)
    forecast = forecast_training(study, function, Measurement(10.0, 10.0, 10.0))
    assert forecast.low_seconds < 200.0 + 10.0 < forecast.high_seconds
    assert forecast.seconds == pytest.approx(210.0, rel=0.02)


def test_the_work_may_depend_on_the_batch_size() -> None:
    study = Study(Goal(Aim.FASTEST), (HERE,), samples=36_000.0, samples_at={64: 72_000.0})
    assert forecast_training(study, HERE, Measurement(10.0, 10.0, 10.0)).seconds == pytest.approx(7200.0)


def test_a_belief_is_forecast_with_its_own_band() -> None:
    forecast = forecast_belief(STUDY, Belief(HERE, 10.0, 5.0, 20.0))
    assert forecast.high_seconds - 60.0 == pytest.approx(7200.0, rel=1e-3)
    assert forecast.low_seconds - 60.0 == pytest.approx(1800.0, rel=1e-3)
