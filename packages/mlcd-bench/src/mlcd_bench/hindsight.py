"""The stop rule that favours a peer most, found in hindsight.

The peers know what to try next, not when to stop. What they suggest does not depend on when they will be
stopped, so one search of MOST_PROBES probes tells how every rule would have ended:

    after k probes, k = 3 … 20
    the same, but earlier where the next probe would take what the best known deployment needs (HeterBO's reserve)

Of these 36 rules the one with the lowest mean ratio over all episodes of a peer, scenario and job size is taken.
No user could know it beforehand: the peers are flattered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

from mlcd.core.machines import Deployment
from mlcd.core.study import Stop, Study
from mlcd.search.base import Searcher
from mlcd.search.limits import best_feasible, room_for_probes
from mlcd_bench.episode import Episode, best_known, close_episode, play_search, states_of
from mlcd_bench.protocol import Hours, Problem, Rules

FEWEST_PROBES = 3
MOST_PROBES = 20


@dataclass(frozen=True, order=True)
class Rule:
    """When to stop asking a library that would go on for ever."""

    probes: int
    reserve: bool

    def __str__(self) -> str:
        reserve = ", or before the best known deployment is out of reach" if self.reserve else ""
        return f"after {self.probes} probes{reserve}"


RULES = tuple(Rule(k, reserve) for k in range(FEWEST_PROBES, MOST_PROBES + 1) for reserve in (False, True))


def run_with_every_rule(
    problem: Problem, strategy: str, searcher: Searcher, seed: int, rules: Rules
) -> dict[Rule | None, Episode]:
    """How the same search ends under each rule."""
    search = play_search(problem, searcher, seed, rules, max_probes=MOST_PROBES)
    states = tuple(states_of(problem, search, rules))
    episodes: dict[Rule | None, Episode] = {}
    for rule in RULES:
        study = _stopped(states, rule)
        stopped = replace(search, study=study, stop=Stop(best_known(study), str(rule)))
        episodes[rule] = close_episode(problem, strategy, seed, stopped, rules)
    return episodes


def best_rules(outcomes: Iterable[Mapping[Rule | None, Episode]]) -> dict[tuple[str, str, Hours], Rule]:
    """For each peer, scenario and job size the rule with the lowest mean ratio."""
    ratios: dict[tuple[str, str, Hours], dict[Rule, list[float]]] = defaultdict(lambda: defaultdict(list))
    for outcome in outcomes:
        for rule, episode in outcome.items():
            if rule is not None:
                ratios[(episode.strategy, episode.scenario, episode.hours)][rule].append(episode.ratio)
    return {group: _lowest_mean(rules) for group, rules in ratios.items()}


def _lowest_mean(ratios: Mapping[Rule, list[float]]) -> Rule:
    return min(ratios, key=lambda rule: (fmean(ratios[rule]), rule))


def _stopped(states: tuple[Study, ...], rule: Rule) -> Study:
    """The state of the search at which the rule ends it."""
    last = min(rule.probes, len(states) - 1)
    if rule.reserve:
        for now, then in pairwise(states[: last + 1]):
            if _takes_the_reserve(now, then.trials[-1].deployment):
                return now
    return states[last]


def _takes_the_reserve(study: Study, deployment: Deployment) -> bool:
    """Whether this probe would spend what the best known deployment that keeps the limits needs."""
    best = best_feasible(study)
    return best is not None and not room_for_probes(study, best).admits(study, deployment)
