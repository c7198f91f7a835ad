"""Episodes in a few figures."""

from __future__ import annotations

from typing import Any

import pytest

from mlcd_bench.episode import Episode, run_episode
from mlcd_bench.protocol import Rules, Scenario, set_problem
from mlcd_bench.summary import conclusion, summarize
from small_cases import FAST, Script, one, small_case


def episode(**changes: Any) -> Episode:
    problem = set_problem(small_case(), Scenario.BUDGET, 1.0, 2.0)
    assert problem is not None
    base = run_episode(problem, "a", Script((), one(FAST, 1)), 0, Rules())
    return Episode(**{**base.__dict__, **changes})


def test_a_row_gives_mean_median_and_tail() -> None:
    ratios = [1.0] * 9 + [11.0]
    (row,) = summarize([episode(ratio=ratio, seed=seed) for seed, ratio in enumerate(ratios)])
    assert (row.episodes, row.mean_ratio, row.median_ratio) == (10, pytest.approx(2.0), 1.0)
    assert row.p90_ratio == pytest.approx(2.0)


def test_a_row_gives_shares_of_what_went_wrong() -> None:
    episodes = [episode(broken=True), episode(finished=False), episode(), episode()]
    (row,) = summarize(episodes)
    assert (row.broken_share, row.unfinished_share) == (0.25, 0.25)


def test_strategies_scenarios_and_sizes_have_rows_of_their_own() -> None:
    rows = summarize([episode(), episode(strategy="b"), episode(scenario="deadline"), episode(hours=6.0), episode()])
    assert len(rows) == 4


def test_the_conclusion_names_the_lowest_mean_that_keeps_the_limits() -> None:
    rows = summarize([episode(strategy="rash", ratio=0.9, broken=True), episode(strategy="sound", ratio=1.1)])
    said = conclusion(rows)
    assert said.startswith("Closest to the oracle: sound, 1.100 ×")
    assert "Lower by breaking the limits: rash" in said


def test_the_conclusion_says_when_nobody_kept_the_limits() -> None:
    assert conclusion(summarize([episode(broken=True)])).startswith("No strategy kept the limits.")
