"""CherryPick and its budget-aware form."""

from __future__ import annotations

from mlcd.core.goal import Aim, Goal
from mlcd.search.base import Searcher
from mlcd.testing.searcher_contract import SearcherContract, make_study, play, scaling_truth, small_space
from mlcd_bench.papers.cherrypick import CherryPick, CPImprd


class TestCherryPick(SearcherContract):
    keeps_reserve = False

    def searcher(self) -> Searcher:
        return CherryPick()


class TestCPImprd(SearcherContract):
    def searcher(self) -> Searcher:
        return CPImprd()


def test_at_least_six_runs_are_made() -> None:
    for seed in range(4):
        study = make_study(Goal(Aim.CHEAPEST), small_space(types=2, most_nodes=6), seed=seed)
        assert len(play(CherryPick(), study, scaling_truth).study.trials) >= 6


def test_the_start_points_lie_apart() -> None:
    for seed in range(4):
        searched = play(CherryPick(), make_study(Goal(Aim.FASTEST), seed=seed), scaling_truth)
        first = [trial.deployment for trial in searched.study.trials[:3]]
        assert len({d.offer.instance.name for d in first}) >= 2
        assert max(d.nodes for d in first) - min(d.nodes for d in first) >= 3


def test_the_deadline_steers_the_choice() -> None:
    free = play(CherryPick(), make_study(Goal(Aim.CHEAPEST)), scaling_truth)
    bound = play(CherryPick(), make_study(Goal(Aim.CHEAPEST, deadline_seconds=36 * 3600.0)), scaling_truth)
    assert free.stop.choice is not None
    assert bound.stop.choice is not None
    assert scaling_truth(bound.stop.choice) > scaling_truth(free.stop.choice)
