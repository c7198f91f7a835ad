"""The stop rules that flatter a peer."""

from __future__ import annotations

from mlcd_bench.episode import Episode, run_episode
from mlcd_bench.hindsight import RULES, Rule, best_rules, run_with_every_rule
from mlcd_bench.protocol import Rules, Scenario, set_problem
from small_cases import FAST, SLOW, Script, one, small_case

EXACT = Rules(noise=0.0)


def outcomes(scenario: Scenario, slack: float = 2.0, hours: float = 1.0) -> dict[Rule | None, Episode]:
    problem = set_problem(small_case(), scenario, hours, slack)
    assert problem is not None
    tries = (one(SLOW, 1), one(SLOW, 4), one(FAST, 1), one(FAST, 2), one(FAST, 4))
    return run_with_every_rule(problem, "peer", Script(tries, None), 0, EXACT)


def test_every_rule_ends_as_if_it_had_stopped_the_search_itself() -> None:
    problem = set_problem(small_case(), Scenario.FASTEST, 1.0, 2.0)
    assert problem is not None
    tries = (one(SLOW, 1), one(SLOW, 4), one(FAST, 1))
    alone = run_episode(problem, "peer", Script(tries, one(FAST, 1)), 0, EXACT)
    together = outcomes(Scenario.FASTEST)[Rule(3, reserve=False)]
    assert (together.total_hours, together.chosen) == (alone.total_hours, alone.chosen)


def test_the_rule_with_the_lowest_mean_ratio_is_taken() -> None:
    found = outcomes(Scenario.FASTEST)
    assert set(found) == set(RULES)
    best = best_rules([found])[("peer", "fastest", 1.0)]
    lowest = min(episode.ratio for episode in found.values())
    assert found[best].ratio == lowest


def test_the_reserve_stops_before_the_limit_is_broken() -> None:
    found = outcomes(Scenario.DEADLINE, slack=1.85)
    plain, reserved = found[Rule(5, reserve=False)], found[Rule(5, reserve=True)]
    assert plain.broken
    assert not reserved.broken
    assert reserved.probes < plain.probes
