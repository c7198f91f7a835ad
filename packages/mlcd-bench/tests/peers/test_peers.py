"""Other libraries behind one adapter; those that are not installed are skipped."""

from __future__ import annotations

from math import log

import pytest

from mlcd.core.machines import Deployment
from mlcd.core.study import Stop
from mlcd.errors import MissingExtraError
from mlcd_bench.cases import read_cases
from mlcd_bench.episode import play_search
from mlcd_bench.hindsight import run_with_every_rule
from mlcd_bench.peers import PEERS
from mlcd_bench.peers.base import START_PROBES, Peer, Question
from mlcd_bench.protocol import Problem, Rules, Scenario, set_problem
from mlcd_bench.strategies import parse_strategy
from small_cases import FAST, SLOW, Script, one, small_case

EXACT = Rules(noise=0.0)


def problem(scenario: Scenario) -> Problem:
    case = read_cases(["synthetic:3"])[4]
    found = set_problem(case, scenario, 6.0, 2.0)
    assert found is not None
    return found


def asked(tries: tuple[Deployment, ...], scenario: Scenario, machine: str = "price") -> Question:
    found = set_problem(small_case(), scenario, 1.0, 2.0)
    assert found is not None
    return Question(play_search(found, Script(tries, None), 0, EXACT).study, machine)


class Stubborn(Peer):
    """Asks for the same corner every time."""

    def ask(self, question: Question) -> Deployment:
        return question.nearest({"price": 8.0, "nodes": 4.0})


def test_a_library_hears_the_goal_in_logs_and_how_far_the_limit_is() -> None:
    (probe,) = asked((one(FAST, 2),), Scenario.DEADLINE).past_probes
    assert probe.value == pytest.approx(log(16.0))
    assert probe.excess == pytest.approx(log((1.0 + 11 / 60) / 2.0))


def test_a_failure_counts_as_worse_than_all_that_was_seen() -> None:
    slow, failed = asked((one(SLOW, 1), one(FAST, 4)), Scenario.BUDGET).past_probes
    assert failed.value == pytest.approx(slow.value + log(2.0))
    assert failed.excess > 0


def test_a_suggestion_is_moved_to_what_exists_and_was_not_tried() -> None:
    assert asked((one(FAST, 4),), Scenario.FASTEST).nearest({"price": 8.0, "nodes": 4.0}) == one(FAST, 2)
    assert asked((), Scenario.FASTEST, "name").nearest({"name": "slow", "nodes": 2.0}).offer == SLOW


def test_a_peer_that_repeats_itself_still_tries_everything_once() -> None:
    found = set_problem(small_case(), Scenario.FASTEST, 1.0, 2.0)
    assert found is not None
    search = play_search(found, Stubborn(), 0, EXACT)
    assert len({trial.deployment for trial in search.study.trials}) == len(search.study.trials) == 5
    assert search.stop.choice == one(FAST, 2)


def test_the_first_probes_are_drawn_by_the_seed() -> None:
    found = problem(Scenario.FASTEST)
    firsts = [
        [trial.deployment for trial in play_search(found, Stubborn(), seed, EXACT, START_PROBES).study.trials]
        for seed in (1, 1, 2)
    ]
    assert firsts[0] == firsts[1] != firsts[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("scenario", [Scenario.FASTEST, Scenario.BUDGET])
def test_an_installed_library_gives_the_same_answer_to_the_same_study(name: str, scenario: Scenario) -> None:
    try:
        searcher = parse_strategy(name).open()
    except MissingExtraError as error:
        pytest.skip(error.message)
    found = problem(scenario)
    study = play_search(found, Stubborn(), 1, EXACT, max_probes=5).study
    study = found.study(1, EXACT) if not study.trials else study
    open_study = study.__class__(**{**study.__dict__, "max_probes": None})
    first, second = searcher.suggest(open_study), parse_strategy(name).open().suggest(open_study)
    assert first == second
    assert not isinstance(first, Stop)
    assert first not in study.tried


@pytest.mark.slow
def test_a_cheap_library_runs_under_every_stop_rule() -> None:
    try:
        searcher = parse_strategy("optuna-tpe").open()
    except MissingExtraError as error:
        pytest.skip(error.message)
    episodes = run_with_every_rule(problem(Scenario.BUDGET), "optuna-tpe", searcher, 0, Rules())
    assert {episode.probes for episode in episodes.values()} >= set(range(3, 8))
