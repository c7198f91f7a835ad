"""Many episodes: the same in any number of processes."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from mlcd.errors import UserError
from mlcd_bench.cases import Case
from mlcd_bench.episode import Episode
from mlcd_bench.protocol import Rules, Scenario
from mlcd_bench.runner import Bench, run_bench
from mlcd_bench.strategies import parse_strategy
from small_cases import small_case


def small_bench(**changes: Any) -> Bench:
    strategies = (parse_strategy("random:k=2"), parse_strategy("heterbo"))
    return replace(Bench((small_case(),), strategies, hours=(6.0,), seeds=2), **changes)


def timeless(episode: Episode) -> dict[str, Any]:
    return {key: value for key, value in asdict(episode).items() if key != "decision_seconds"}


def test_every_strategy_meets_every_scenario_and_seed() -> None:
    episodes = run_bench(small_bench()).episodes
    assert len(episodes) == 2 * 3 * 2
    assert {episode.scenario for episode in episodes} == {"fastest", "deadline", "budget"}


@pytest.mark.slow
def test_two_processes_find_what_one_finds() -> None:
    here, there = run_bench(small_bench()), run_bench(small_bench(), jobs=2)
    assert list(map(timeless, here.episodes)) == list(map(timeless, there.episodes))


def test_without_a_limit_the_slack_is_listed_but_played_once() -> None:
    done: list[int] = []
    bench = small_bench(scenarios=(Scenario.FASTEST,), slacks=(1.5, 3.0))
    episodes = run_bench(bench, report=lambda count, total: done.append(total)).episodes
    assert sorted(episode.slack for episode in episodes) == [1.5] * 4 + [3.0] * 4
    assert done == [4] * 4


def test_progress_is_reported_after_every_episode() -> None:
    seen: list[tuple[int, int]] = []
    run_bench(small_bench(), report=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 12) for done in range(1, 13)]


def test_cases_that_do_not_know_their_size_are_left_out_of_trace_hours() -> None:
    nameless = replace(small_case(), workload="unsized", samples=())
    episodes = run_bench(small_bench(cases=(small_case(), nameless), hours=("trace",))).episodes
    assert {episode.workload for episode in episodes} == {"small"}
    with pytest.raises(UserError, match="nothing to run"):
        run_bench(small_bench(cases=(nameless,), hours=("trace",)))


def test_the_rules_reach_the_episodes() -> None:
    strategies = (parse_strategy("random:k=3"),)
    plain = run_bench(small_bench(strategies=strategies, rules=Rules(noise=0.0)))
    carried = run_bench(small_bench(strategies=strategies, rules=Rules(noise=0.0, carry=True)))
    pairs = zip(plain.episodes, carried.episodes, strict=True)
    assert any(with_carry.total_hours < without.total_hours for without, with_carry in pairs)


def test_a_case_travels_to_another_process() -> None:
    case = Case("t", "w", "all", small_case().truth, ((None, 5.0),))
    assert run_bench(small_bench(cases=(case,), seeds=1), jobs=1).episodes
