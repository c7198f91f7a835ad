"""HeterBO keeps the searcher's contract and does what the paper says."""

from __future__ import annotations

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment
from mlcd.core.study import Stop
from mlcd.core.trial import FailureKind
from mlcd.search.base import Searcher
from mlcd.search.heterbo import HeterBO
from mlcd.testing.searcher_contract import SearcherContract, make_study, play, scaling_truth, small_space
from search_worlds import deployment, failed, measured, study_of


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


def test_a_job_shorter_than_a_probe_is_not_searched_for_long() -> None:
    searched = play(HeterBO(), make_study(Goal(Aim.FASTEST), hours=0.05), scaling_truth)
    assert len(searched.study.trials) <= 12


def test_the_end_says_why() -> None:
    searched = play(HeterBO(), make_study(Goal(Aim.FASTEST)), scaling_truth)
    assert searched.stop.reason == "no other deployment is expected to save more than trying it costs"


def test_the_choice_is_close_to_the_best() -> None:
    study = make_study(Goal(Aim.FASTEST), hours=24.0)
    searched = play(HeterBO(), study, scaling_truth)
    assert isinstance(searched.stop, Stop)
    assert searched.stop.choice is not None
    assert scaling_truth(searched.stop.choice) > 0.85 * max(map(scaling_truth, study.space))


def test_a_deployment_that_is_expected_to_keep_the_deadline_is_taken_before_the_next_probe_loses_it() -> None:
    space = tuple(deployment("c5", nodes) for nodes in range(1, 9))
    study = study_of(measured(space[3], 100.0), space=space, aim=Aim.CHEAPEST, deadline_hours=1.19)
    stop = HeterBO().suggest(study)
    assert isinstance(stop, Stop)
    assert stop.choice == space[3]
    assert "what is left of the limits is needed to train on" in stop.reason


def test_nothing_is_tried_that_linear_speed_up_cannot_bring_within_the_deadline() -> None:
    """One node takes 100 hours, so even eight cannot keep five: the goal is given up after one probe."""
    space = tuple(deployment("c5", nodes) for nodes in range(1, 9))
    study = study_of(measured(space[0], 1.0), space=space, aim=Aim.CHEAPEST, deadline_hours=5.0)
    assert HeterBO().suggest(study) == Stop(None, "nothing measured keeps the limits, and nothing else is likely to")


def test_no_probe_is_made_whose_saving_is_smaller_than_its_price() -> None:
    """A training of ten minutes on one node: no probe of ten minutes can save time."""
    space = tuple(deployment("c5", nodes) for nodes in range(1, 9))
    study = study_of(measured(space[0], 600.0), space=space)
    assert isinstance(HeterBO().suggest(study), Stop)


def test_after_many_failures_on_small_clusters_larger_ones_are_tried() -> None:
    types = [f"c{number}" for number in range(5)]
    space = tuple(deployment(name, nodes) for name in types for nodes in (1, 2, 16))
    small = [failed(each, FailureKind.CRASHED) for each in space if each.nodes == 1]
    study = study_of(*small, measured(space[2], 1.0), space=space)
    answer = HeterBO().suggest(study)
    assert isinstance(answer, Deployment)
    assert answer.nodes == 16
