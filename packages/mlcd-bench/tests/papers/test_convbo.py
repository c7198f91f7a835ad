"""Conventional Bayesian optimisation and its budget-aware form."""

from __future__ import annotations

import numpy as np
import pytest

from mlcd.core.goal import Aim, Goal
from mlcd.search.base import Searcher
from mlcd.testing.searcher_contract import SearcherContract, make_study, play, scaling_truth
from mlcd_bench.papers.convbo import BOImprd, ConvBO, best_by_training
from mlcd_bench.papers.convbo_model import expected_improvement


class TestConvBO(SearcherContract):
    keeps_reserve = False

    def searcher(self) -> Searcher:
        return ConvBO()


class TestBOImprd(SearcherContract):
    def searcher(self) -> Searcher:
        return BOImprd()


TIGHT = Goal(Aim.CHEAPEST, deadline_seconds=1.3 * 3600.0)


def test_the_first_points_are_random_and_fixed_by_the_seed() -> None:
    starts = [ConvBO().suggest(make_study(Goal(Aim.FASTEST), seed=seed)) for seed in range(5)]
    assert len(set(map(str, starts))) > 2


def test_the_deadline_is_passed_by_looking_too_long_unless_budget_aware() -> None:
    blind = play(ConvBO(), make_study(TIGHT, hours=1.0), scaling_truth)
    aware = play(BOImprd(), make_study(TIGHT, hours=1.0), scaling_truth)
    assert blind.study.spent.seconds > 0.3 * 3600.0
    assert aware.study.spent.seconds <= 1.3 * 3600.0
    assert len(aware.study.trials) < len(blind.study.trials)


def test_a_lower_threshold_looks_longer() -> None:
    study = make_study(Goal(Aim.FASTEST))
    patient = play(ConvBO(threshold=0.001), study, scaling_truth)
    hasty = play(ConvBO(threshold=0.5), study, scaling_truth)
    assert len(patient.study.trials) > len(hasty.study.trials)


def test_the_choice_does_not_count_what_the_search_has_spent() -> None:
    blind = play(ConvBO(), make_study(TIGHT, hours=1.0), scaling_truth)
    best = best_by_training(blind.study)
    assert best is not None
    assert blind.stop.choice == best.deployment


def test_expected_improvement_is_equation_4() -> None:
    draws = np.random.default_rng(0).normal(2.0, 0.5, 200_000)
    expected = np.maximum(1.8 - draws, 0.0).mean()
    assert expected_improvement(1.8, np.array([2.0]), np.array([0.5]))[0] == pytest.approx(expected, rel=0.02)
