"""What a probe or a training takes of the goal and its limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment
from mlcd.core.study import ProbeTime, Study
from mlcd.search.auto.costs import costs_of
from mlcd.search.auto.features import describe
from search_worlds import offer


def test_what_is_charged_at_least_is_in_probes_trainings_and_limits() -> None:
    short = Deployment(replace(offer("c4.large"), least_seconds=60.0), 2)
    study = Study(Goal(Aim.CHEAPEST, budget_usd=0.03), (short,), 100.0, probe_time=ProbeTime(30.0, 0.0))
    costs = costs_of(study, describe(study.space))
    assert study.probe_usd(short) == pytest.approx(short.usd(60.0))
    assert costs.probe_usd.tolist() == [pytest.approx(study.probe_usd(short))]
    assert costs.value(np.array([10.0])).tolist() == [pytest.approx(short.usd(60.0))]
    assert costs.required().tolist() == [np.inf]  # not even the minimum of a minute can be paid
    rich = replace(study, goal=Goal(Aim.CHEAPEST, budget_usd=0.04))
    assert np.isfinite(costs_of(rich, describe(study.space)).required()).all()


def test_a_probe_beside_another_takes_its_money_and_none_of_its_time() -> None:
    deployments = tuple(Deployment(offer(f"{family}.large"), nodes) for family in "abcdef" for nodes in (1, 2, 4))
    study = Study(Goal(Aim.FASTEST, budget_usd=1000.0), deployments, 100.0)
    alone, beside = (
        costs_of(each, describe(deployments)) for each in (study, replace(study, pending=(deployments[2],)))
    )
    assert alone.probe_seconds[2] == study.probe_seconds(deployments[2])
    assert beside.probe_seconds[2] == 0.0
    assert beside.spent.usd == study.probe_usd(deployments[2])
