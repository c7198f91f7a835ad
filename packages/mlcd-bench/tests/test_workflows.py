"""A workflow is played with the product's decisions: what its searches cost and choose is what is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.adapt.changes import Conditions
from mlcd.core.machines import Deployment
from mlcd.core.study import Belief, Stop, Study
from mlcd_bench.protocol import Problem, Rules, Scenario, set_problem
from mlcd_bench.workflows import Played, Stage, play_workflow
from small_cases import FAST, SLOW, one, small_case

RULES = Rules(noise=0.0)
SMALL, LARGE = Conditions(parameters=1e6), Conditions(parameters=1e9)


class TriesTwo:
    """Tries one slow and one fast deployment and takes the cheapest that keeps the deadline, or the only one there is."""

    def __init__(self) -> None:
        self.seen: list[Study] = []

    def suggest(self, study: Study) -> Deployment | Stop:
        self.seen.append(study)
        wanted = [each for each in (one(SLOW, 4), one(FAST, 1)) if each in study.space and each not in study.tried]
        if wanted:
            return wanted[0]
        kept = [trial.deployment for trial in study.trials if self._keeps(study, trial.deployment)]
        return Stop(min(kept, key=lambda each: each.usd_per_hour), "done") if kept else Stop(None, "too slow")

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        return ()

    @staticmethod
    def _keeps(study: Study, deployment: Deployment) -> bool:
        total = study.total(deployment, dict(small_case().truth)[deployment] or 1.0)
        return study.goal.allows(total.seconds, total.usd)


def stage(conditions: Conditions, hours: float = 24.0, slack: float = 3.0) -> Stage:
    problem = set_problem(small_case(), Scenario.DEADLINE, hours, slack)
    assert isinstance(problem, Problem)
    samples = hours * 3600.0 * 1000.0
    return Stage(f"{hours:g} h", problem, replace(conditions, samples=samples))


def play(*stages: Stage, once: bool = False) -> list[Played]:
    return list(play_workflow(stages, "two", TriesTwo(), 0, RULES, once))


def test_a_phase_like_the_one_before_is_not_searched_again() -> None:
    first, second = play(stage(SMALL), stage(SMALL))
    assert (first.searched, second.searched) == (True, False)
    assert second.episode.ended_on == first.episode.ended_on
    assert second.episode.probes < first.episode.probes


def test_one_that_has_changed_is_searched_with_what_was_measured_before() -> None:
    searcher = TriesTwo()
    first, second = play_workflow([stage(SMALL), stage(LARGE)], "two", searcher, 0, RULES)
    assert second.searched
    assert searcher.seen[0].earlier == ()
    assert len(searcher.seen[-1].earlier) == 1
    assert second.episode.total_usd > second.episode.search_usd > 0
    assert first.lost_usd == pytest.approx(first.episode.search_usd)


def test_a_deployment_that_cannot_keep_the_deadline_any_more_is_left_and_the_try_is_paid() -> None:
    slow, tight = stage(SMALL), stage(SMALL, slack=1.5)
    kept, left = play(slow, tight)
    assert kept.episode.ended_on == one(SLOW, 4).key
    assert left.searched
    assert left.episode.ended_on == one(FAST, 1).key
    assert not left.episode.broken
    assert left.episode.search_usd > kept.episode.search_usd  # the try that came to nothing, and both probes


def test_who_looks_once_keeps_what_was_found() -> None:
    first, second = play(stage(SMALL), stage(LARGE), once=True)
    assert (second.searched, second.episode.search_usd) == (False, 0.0)
    assert second.episode.ended_on == first.episode.ended_on
