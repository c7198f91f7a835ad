"""The space as columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment
from mlcd.core.study import ProbeTime
from mlcd.core.trial import FailureKind
from mlcd.search.auto.costs import costs_of
from mlcd.search.auto.features import describe
from mlcd.search.table import excluded, goal_values, study_view, table_of
from mlcd.search.trials import exclusions
from search_worlds import deployment, failed, measured, study_of

SPACE = tuple(
    deployment(name, nodes, batch, usd_per_hour=price, gpus=gpus, gpu_memory_gib=memory, memory_gib=8.0)
    for name, price, gpus, memory in (("c5", 0.01, 0, 0.0), ("t4", 1.0, 1, 16.0), ("a100", 10.0, 2, 40.0))
    for nodes in (1, 2, 4)
    for batch in (32, 64)
)


def test_columns_say_what_the_deployments_say() -> None:
    table = table_of(SPACE)
    assert list(table.usd_per_hour) == pytest.approx([d.usd_per_hour for d in SPACE])
    assert [table.kinds[kind] for kind in table.kind] == [d.offer.instance.name for d in SPACE]
    assert [table.position[d] for d in SPACE] == list(range(len(SPACE)))


def test_features_are_centred_finite_and_without_constant_columns() -> None:
    features = table_of(SPACE).features
    assert features.shape == (
        len(SPACE),
        5,
    )  # nodes, batch, price, GPU memory, GPUs; memory is the same everywhere
    assert np.all(np.isfinite(features))
    assert np.abs(features.mean(axis=0)).max() < 1e-9
    assert table_of(SPACE[:1]).features.shape == (1, 1)


def test_an_outlook_agrees_with_the_study() -> None:
    study = replace(study_of(space=SPACE), samples_at={64: 5.0}, start_seconds=7.0)
    view = study_view(study)
    assert list(view.work) == [study.work(d) for d in SPACE]
    assert list(view.probe_usd) == pytest.approx([study.probe_usd(d) for d in SPACE])
    speed = np.full(len(SPACE), 3.0)
    assert list(view.training_seconds(speed)) == pytest.approx([study.training_seconds(d, 3.0) for d in SPACE])


def test_what_is_charged_at_least_is_in_the_outlook() -> None:
    short = replace(deployment("c5").offer, least_seconds=60.0)
    study = replace(study_of(space=(Deployment(short, 1),)), probe_time=ProbeTime(30.0))
    view = study_view(study)
    assert list(view.probe_usd) == pytest.approx([study.space[0].usd(60.0)])
    assert list(view.usd(np.array([10.0]))) == pytest.approx([study.space[0].usd(60.0)])


def test_functions_cost_their_restarts_and_their_parameter_store() -> None:
    one = deployment("fn", 1).offer
    function = replace(one, kind="function", lifetime_seconds=45.0, store_usd_per_hour=0.5)
    space = (Deployment(one, 2), Deployment(function, 1), Deployment(function, 2))
    study = replace(study_of(space=space), start_seconds=19.0)
    view, costs = study_view(study), costs_of(study, describe(space))
    assert list(table_of(space).usd_per_hour) == pytest.approx([each.usd_per_hour for each in space])
    assert list(costs.usd) == pytest.approx([each.usd_per_hour for each in space])
    assert space[2].usd_per_hour == pytest.approx(2 * one.usd_per_hour + 0.5)
    seconds = [study.training_seconds(each, 10.0) for each in space]
    assert list(view.training_seconds(np.full(3, 10.0))) == pytest.approx(seconds)
    assert list(19.0 + costs.work / 10.0) == pytest.approx(seconds)
    assert (seconds[1] - 19.0) / (seconds[0] - 19.0) == pytest.approx(45.0 / (45.0 - 19.0))


def test_a_view_counts_the_work_that_is_lost_with_machines() -> None:
    space = (deployment("c5"), deployment("c5", spot=True, losses_per_hour=0.5))
    study = replace(study_of(space=space), start_seconds=600.0)
    seconds = study_view(study).training_seconds(np.full(2, 10.0))
    assert list(seconds) == pytest.approx([study.training_seconds(d, 10.0) for d in space])
    assert seconds[1] > 1.1 * seconds[0]
    assert costs_of(study, describe(space)).work == pytest.approx(study_view(study).work)


def test_tried_and_pending_deployments_are_not_open() -> None:
    study = replace(study_of(measured(SPACE[3], 1.0), space=SPACE), pending=(SPACE[5],))
    assert set(np.flatnonzero(~study_view(study).open)) == {3, 5}


@pytest.mark.parametrize("full", SPACE, ids=[d.key for d in SPACE])
def test_columns_exclude_what_exclusions_do(full: Deployment) -> None:
    rules = exclusions(study_of(failed(full), space=SPACE))
    assert list(excluded(table_of(SPACE), rules)) == [rules.excludes(d) for d in SPACE]


def test_types_on_which_the_program_only_fails_are_excluded() -> None:
    study = study_of(failed(SPACE[0], FailureKind.CRASHED), failed(SPACE[1], FailureKind.CRASHED), space=SPACE)
    assert list(excluded(table_of(SPACE), exclusions(study))) == [d.offer.instance.name == "c5" for d in SPACE]


@pytest.mark.parametrize("aim", list(Aim))
def test_goals_judge_columns_as_they_judge_one(aim: Aim) -> None:
    goal = Goal(aim, deadline_seconds=5000.0, budget_usd=2.0)
    seconds, usd = np.array([3600.0, 7200.0, 1800.0]), np.array([1.0, 1.0, 4.0])
    pairs = list(zip(seconds, usd, strict=True))
    assert list(goal_values(goal, seconds, usd)) == pytest.approx([goal.value(s, u) for s, u in pairs])
