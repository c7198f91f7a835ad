"""The incumbent and its reserve."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from mlcd.core.goal import Aim
from mlcd.search.limits import best_feasible, nearest, room_for_probes, surely_feasible
from search_worlds import deployment, failed, measured, study_of

FAST = deployment("p3", 1, usd_per_hour=10.0)  # 360,000 samples at 100/s: 1 h, $10
SLOW = deployment("c5", 1, usd_per_hour=1.0)  # at 25/s: 4 h, $4


def test_the_incumbent_is_the_best_by_the_goal() -> None:
    trials = (measured(FAST, 100.0), measured(SLOW, 25.0))
    assert best_feasible(study_of(*trials, aim=Aim.FASTEST)).deployment == FAST  # type: ignore[union-attr]
    assert best_feasible(study_of(*trials, aim=Aim.CHEAPEST)).deployment == SLOW  # type: ignore[union-attr]


def test_what_would_pass_a_limit_is_no_incumbent() -> None:
    study = study_of(measured(FAST, 100.0), measured(SLOW, 25.0), aim=Aim.CHEAPEST, deadline_hours=3.0)
    assert best_feasible(study).deployment == FAST  # type: ignore[union-attr]


def test_a_deployment_that_only_noise_makes_feasible_loses_to_a_sure_one() -> None:
    # 4 h of training and 20 minutes of probes, against 4.4 hours: the 2 % that a probe cannot see may break it.
    trials = (measured(FAST, 100.0), measured(SLOW, 25.0))
    study = study_of(*trials, aim=Aim.CHEAPEST, deadline_hours=4.4)
    assert best_feasible(study).deployment == FAST  # type: ignore[union-attr]


def test_nothing_feasible_is_none_and_the_nearest_is_still_known() -> None:
    study = study_of(measured(FAST, 100.0), measured(SLOW, 25.0), failed(deployment("x")), budget_usd=3.0)
    assert best_feasible(study) is None
    assert nearest(study).deployment == SLOW  # type: ignore[union-attr]


def test_the_room_for_probes_is_what_the_incumbents_training_leaves() -> None:
    study = study_of(measured(FAST, 100.0), aim=Aim.FASTEST, budget_usd=20.0)
    room = room_for_probes(study, best_feasible(study))
    assert room.seconds == inf
    assert room.usd == pytest.approx(20.0 - 10.0 / 6.0 - 10.0 * 1.04, abs=0.02)
    assert room.admits(study, deployment("p3", 3, usd_per_hour=10.0))  # 11 minutes: $5.50 and a surcharge
    assert not room.admits(study, deployment("p3", 8, usd_per_hour=10.0))  # 13 minutes: $17


def test_probes_under_way_take_money_from_the_room() -> None:
    study = study_of(measured(FAST, 100.0), budget_usd=20.0)
    busy = replace(study, pending=(FAST,))
    taken = room_for_probes(study, None).usd - room_for_probes(busy, None).usd
    assert taken == pytest.approx(1.1 * FAST.usd(600.0))


def test_without_limits_there_is_always_room() -> None:
    study = study_of(measured(FAST, 100.0))
    assert room_for_probes(study, best_feasible(study)).admits(study, deployment("p3", 8, usd_per_hour=1e6))


def test_an_incumbent_that_is_only_expected_to_keep_the_limits_is_not_lost_either() -> None:
    # 1 h of training and a probe: 1.17 h of 1.19 h, so that a little slower breaks it, and another probe does, too.
    study = study_of(measured(FAST, 100.0), deadline_hours=1.19)
    incumbent = best_feasible(study)
    assert incumbent is not None
    assert surely_feasible(study) is None
    room = room_for_probes(study, incumbent)
    assert room.seconds == pytest.approx(0.19 * 3600.0 - 600.0)
    assert not room.admits(study, SLOW)


def test_what_cannot_keep_the_limits_holds_nothing_back() -> None:
    study = study_of(measured(FAST, 100.0), deadline_hours=1.1)
    assert best_feasible(study) is None
    assert room_for_probes(study, study.trials[0]).seconds == pytest.approx(1.1 * 3600.0 - 600.0)
