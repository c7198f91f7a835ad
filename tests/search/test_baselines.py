"""Random and exhaustive search."""

from __future__ import annotations

import pytest

from mlcd.core.goal import Aim, Goal
from mlcd.search.base import Searcher
from mlcd.search.baselines import ExhaustiveSearch, RandomSearch
from mlcd.testing.searcher_contract import SearcherContract, make_study, play, scaling_truth


class TestRandomSearch(SearcherContract):
    def searcher(self) -> Searcher:
        return RandomSearch()


@pytest.mark.slow
class TestExhaustiveSearch(SearcherContract):
    def searcher(self) -> Searcher:
        return ExhaustiveSearch()


def test_random_search_tries_k_and_other_seeds_try_others() -> None:
    one = play(RandomSearch(k=4), make_study(Goal(Aim.FASTEST), seed=1), scaling_truth)
    two = play(RandomSearch(k=4), make_study(Goal(Aim.FASTEST), seed=2), scaling_truth)
    assert len(one.study.trials) == len(two.study.trials) == 4
    assert [t.deployment for t in one.study.trials] != [t.deployment for t in two.study.trials]


def test_exhaustive_search_finds_the_best_there_is() -> None:
    study = make_study(Goal(Aim.FASTEST))
    searched = play(ExhaustiveSearch(), study, scaling_truth)
    assert len(searched.study.trials) == len(study.space)
    assert searched.stop.choice is not None
    assert scaling_truth(searched.stop.choice) > 0.95 * max(map(scaling_truth, study.space))


def test_exhaustive_search_may_be_thinned_to_some_numbers_of_nodes() -> None:
    searched = play(ExhaustiveSearch(nodes=[1, 4]), make_study(Goal(Aim.FASTEST)), scaling_truth)
    assert {trial.deployment.nodes for trial in searched.study.trials} == {1, 4}
    assert searched.stop.reason == "everything was tried"
