"""The agent finds its way by trial and error."""

from __future__ import annotations

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment
from mlcd.search.base import Searcher
from mlcd.testing.searcher_contract import (
    SearcherContract,
    crowded_truth,
    make_study,
    play,
    scaling_truth,
    small_space,
)
from mlcd_bench.papers.q_learning import QLearning


class TestQLearning(SearcherContract):
    keeps_reserve = False

    def searcher(self) -> Searcher:
        return QLearning()


def test_more_training_finds_better_deployments() -> None:
    def speed(episodes: int) -> float:
        choices = [
            play(QLearning(episodes=episodes), make_study(Goal(Aim.FASTEST), seed=seed), scaling_truth).stop.choice
            for seed in range(5)
        ]
        return sum(scaling_truth(each) for each in choices if isinstance(each, Deployment))

    assert speed(20) > 1.2 * speed(1)


def test_what_fails_is_learnt_from_and_not_chosen() -> None:
    study = make_study(Goal(Aim.CHEAPEST), small_space(batch_sizes=(256,)))
    found = play(QLearning(), study, crowded_truth)
    assert found.stop.choice is not None
    assert crowded_truth(found.stop.choice) is not None
