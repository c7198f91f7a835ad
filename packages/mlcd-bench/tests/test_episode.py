"""One search and its training, with totals that can be checked on paper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.core.study import Study
from mlcd.core.trial import Failure, FailureKind
from mlcd.errors import MlcdError
from mlcd_bench.episode import play_search, run_episode, states_of
from mlcd_bench.protocol import Problem, Rules, Scenario, set_problem
from small_cases import FAST, SLOW, Script, one, small_case

EXACT = Rules(noise=0.0)


def problem(scenario: Scenario = Scenario.FASTEST, hours: float = 1.0, slack: float = 2.0) -> Problem:
    found = set_problem(small_case(), scenario, hours, slack)
    assert found is not None
    return found


def test_the_total_is_the_probes_and_the_training() -> None:
    searcher = Script((one(SLOW, 1), one(FAST, 2)), one(FAST, 2))
    episode = run_episode(problem(), "script", searcher, 0, EXACT)
    # 10 minutes of one slow node, 11 of two fast ones, 1 h of training
    assert episode.total_hours == pytest.approx(1.0 + 10 / 60 + 11 / 60)
    assert episode.total_usd == pytest.approx(16.0 + 1.0 * 10 / 60 + 16.0 * 11 / 60)
    assert episode.ratio == pytest.approx(episode.total_hours / 1.0)
    assert episode.search_share == pytest.approx((21 / 60) / (81 / 60))
    assert (episode.probes, episode.finished, episode.broken, episode.limit) == (2, True, False, None)
    assert episode.chosen == "2xfast"


def test_the_ratio_counts_dollars_under_a_deadline() -> None:
    episode = run_episode(problem(Scenario.DEADLINE), "script", Script((), one(FAST, 2)), 0, EXACT)
    assert episode.limit == pytest.approx(2.0)
    assert episode.ratio == pytest.approx(16.0 / 10.0)  # one fast node: 1.25 h, $10
    assert not episode.broken


def test_a_total_past_the_limit_is_broken_whatever_the_training_alone_would_take() -> None:
    tries = (one(SLOW, 1),) * 1 + (one(SLOW, 4), one(FAST, 1), one(FAST, 2), one(FAST, 4))
    episode = run_episode(problem(Scenario.DEADLINE, slack=1.5), "script", Script(tries, one(FAST, 1)), 0, EXACT)
    assert episode.total_hours > 1.5
    assert episode.broken


def test_a_failed_probe_costs_as_much_as_a_measured_one() -> None:
    search = play_search(problem(), Script((one(FAST, 4),), one(FAST, 2)), 0, EXACT)
    trial = search.study.trials[0]
    assert trial.failure is not None
    assert trial.seconds == 660.0
    assert search.study.spent.usd == pytest.approx(4 * 8.0 * 11 / 60)


def test_a_failure_has_the_reason_that_its_case_gives() -> None:
    case = replace(small_case(), failing=FailureKind.OUT_OF_MEMORY)
    search = play_search(replace(problem(), case=case), Script((one(FAST, 4),), one(FAST, 2)), 0, EXACT)
    assert search.study.trials[0].failure == Failure(
        FailureKind.OUT_OF_MEMORY, "this deployment failed when it was recorded"
    )


def test_a_probe_improves_where_it_finds_a_better_training_than_all_before() -> None:
    # 10 h, 1.25 h, 2.5 h and a failure, 1 h
    tries = (one(SLOW, 1), one(FAST, 1), one(SLOW, 4), one(FAST, 4), one(FAST, 2))
    episode = run_episode(problem(), "script", Script(tries, one(FAST, 2)), 0, EXACT)
    assert (episode.probes, episode.improving) == (5, 3)


def test_giving_up_with_nothing_measured_costs_as_much_as_the_worst_choice_that_keeps_the_limit() -> None:
    given_up = run_episode(problem(Scenario.BUDGET, slack=1.5), "script", Script((), None), 0, EXACT)
    assert (given_up.finished, given_up.chosen) == (False, None)
    for deployment in problem(Scenario.BUDGET, slack=1.5).feasible:
        chosen = run_episode(problem(Scenario.BUDGET, slack=1.5), "script", Script((), deployment), 0, EXACT)
        assert chosen.ratio <= given_up.ratio


def test_giving_up_leaves_its_user_with_the_best_that_was_measured() -> None:
    tries = (one(SLOW, 1), one(SLOW, 4))
    given_up = run_episode(problem(Scenario.DEADLINE), "script", Script(tries, None), 0, EXACT)
    chosen = run_episode(problem(Scenario.DEADLINE), "script", Script(tries, one(SLOW, 4)), 0, EXACT)
    assert (given_up.finished, chosen.finished) == (False, True)
    assert (given_up.ratio, given_up.broken) == (chosen.ratio, True)


def test_choosing_what_fails_costs_a_probe_more_than_giving_up() -> None:
    failed = run_episode(problem(), "script", Script((), one(FAST, 4)), 0, EXACT)
    given_up = run_episode(problem(), "script", Script((), None), 0, EXACT)
    assert not failed.finished
    assert failed.total_hours == pytest.approx(given_up.total_hours + 11 / 60)


def test_the_same_seed_measures_the_same_in_any_order() -> None:
    there = play_search(problem(), Script((one(SLOW, 1), one(FAST, 2)), None), 3, Rules())
    back = play_search(problem(Scenario.BUDGET), Script((one(FAST, 2), one(SLOW, 1)), None), 3, Rules())
    speeds = [{t.deployment: t.outcome for t in search.study.trials} for search in (there, back)]
    assert speeds[0] == speeds[1]


def test_repeats_and_seeds_measure_anew_around_the_truth() -> None:
    searcher = Script((one(SLOW, 1),) * 40, None)
    seen = [
        t.measurement.samples_per_second
        for t in play_search(problem(), searcher, 1, Rules()).study.trials
        if t.measurement
    ]
    assert len(set(seen)) == 40
    assert sum(seen) / 40 == pytest.approx(100.0, rel=0.02)
    assert max(abs(speed / 100.0 - 1.0) for speed in seen) > 0.02


def test_carried_probes_shorten_the_training_by_what_they_trained() -> None:
    rules = replace(EXACT, carry=True, start_share=0.3)
    episode = run_episode(problem(), "script", Script((one(FAST, 2),), one(FAST, 2)), 0, rules)
    # Of the 11 minutes 7.7 train at the speed of the choice, so only the start is lost.
    assert episode.total_hours == pytest.approx(1.0 + 0.3 * 11 / 60)


def test_a_carried_study_shows_what_is_left_and_that_probes_train() -> None:
    left: list[Study] = []
    rules = replace(EXACT, carry=True)
    play_search(problem(), Script((one(SLOW, 1), one(FAST, 4)), one(FAST, 2), left.append), 0, rules)
    assert [study.probe_training_share for study in left] == [0.7] * 3
    assert left[1].samples == pytest.approx(left[0].samples - 100.0 * 0.7 * 600)
    assert left[2].samples == left[1].samples  # a failure trains nothing


def test_probes_that_finish_the_job_end_the_search() -> None:
    rules = replace(EXACT, carry=True)
    episode = run_episode(problem(hours=0.05), "script", Script((one(FAST, 2), one(SLOW, 1)), None), 0, rules)
    assert (episode.finished, episode.probes, episode.chosen) == (True, 1, "2xfast")
    assert episode.total_hours == pytest.approx(0.05 + 0.3 * 11 / 60)


def test_a_search_that_never_ends_is_an_error() -> None:
    with pytest.raises(MlcdError, match="does not come to an end on paper/small"):
        play_search(problem(), Script((one(SLOW, 1),) * 1000, None), 0, EXACT)


def test_the_states_of_a_search_lead_to_its_end() -> None:
    rules = Rules(carry=True)
    search = play_search(problem(), Script((one(SLOW, 1), one(FAST, 4), one(FAST, 1)), None), 0, rules)
    states = list(states_of(problem(), search, rules))
    assert [len(state.trials) for state in states] == [0, 1, 2, 3]
    assert states[-1] == search.study
