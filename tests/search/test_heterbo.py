"""HeterBO keeps the searcher's contract and does what the paper says."""

from __future__ import annotations

import numpy as np
import pytest

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment
from mlcd.core.study import Stop
from mlcd.search.base import Searcher
from mlcd.search.heterbo import HeterBO, past_the_peak
from mlcd.search.speed_model import expected_improvement
from mlcd.search.table import study_view
from mlcd.testing.searcher_contract import SearcherContract, make_study, play, scaling_truth, small_space
from search_worlds import deployment, measured, study_of


class TestHeterBO(SearcherContract):
    def searcher(self) -> Searcher:
        return HeterBO()


def test_a_single_node_of_each_type_comes_first_cheapest_first() -> None:
    searched = play(HeterBO(), make_study(Goal(Aim.FASTEST)), scaling_truth)
    first = [trial.deployment for trial in searched.study.trials[:5]]
    assert [d.nodes for d in first] == [1] * 5
    assert len({d.offer.instance.name for d in first}) == 5
    assert [d.usd_per_hour for d in first] == sorted(d.usd_per_hour for d in first)


def test_of_many_types_only_some_are_looked_at_first() -> None:
    space = small_space(types=40, most_nodes=2)
    study = make_study(Goal(Aim.FASTEST), space)
    for _ in range(4):
        answer = HeterBO(initial_types=4).suggest(study)
        assert isinstance(answer, Deployment)
        assert answer.nodes == 1
        study = study.with_trial(measured(answer, scaling_truth(answer)))
    prices = sorted(trial.deployment.usd_per_hour for trial in study.trials)
    assert prices[0] < 0.05
    assert prices[-1] > 10.0


def test_expected_improvement_is_equation_4() -> None:
    draws = np.random.default_rng(0).normal(2.0, 0.5, 200_000)
    expected = np.maximum(1.8 - draws, 0.0).mean()
    assert expected_improvement(1.8, np.array([2.0]), np.array([0.5]))[0] == pytest.approx(expected, rel=0.02)


def test_no_larger_scale_out_after_a_declining_pair() -> None:
    space = (*(deployment("c5", nodes) for nodes in range(1, 9)), deployment("p3", 8))
    study = study_of(
        measured(space[0], 10.0), measured(space[2], 20.0), measured(space[4], 18.0), space=space
    )
    assert [space[row].key for row in np.flatnonzero(past_the_peak(study_view(study)))] == [
        "6xc5",
        "7xc5",
        "8xc5",
    ]


def test_a_decline_within_the_noise_is_none() -> None:
    space = tuple(deployment("c5", nodes) for nodes in range(1, 9))
    study = study_of(measured(space[0], 10.0, 0.02), measured(space[1], 9.9, 0.02), space=space)
    assert not past_the_peak(study_view(study)).any()


def test_batch_sizes_have_their_own_curves() -> None:
    space = tuple(deployment("c5", nodes, batch) for nodes in (1, 2, 4) for batch in (32, 64))
    study = study_of(measured(space[0], 10.0), measured(space[2], 5.0), space=space)
    assert [space[row].key for row in np.flatnonzero(past_the_peak(study_view(study)))] == ["4xc5/b32"]


def test_a_job_shorter_than_a_probe_is_not_searched_for_long() -> None:
    searched = play(HeterBO(), make_study(Goal(Aim.FASTEST), hours=0.05), scaling_truth)
    assert len(searched.study.trials) <= 12


def test_the_end_says_why() -> None:
    searched = play(HeterBO(), make_study(Goal(Aim.FASTEST)), scaling_truth)
    assert searched.stop.reason == "no other deployment promises to save more than trying it costs"


def test_the_choice_is_close_to_the_best() -> None:
    study = make_study(Goal(Aim.FASTEST), hours=24.0)
    searched = play(HeterBO(), study, scaling_truth)
    assert isinstance(searched.stop, Stop)
    assert searched.stop.choice is not None
    assert scaling_truth(searched.stop.choice) > 0.85 * max(map(scaling_truth, study.space))
