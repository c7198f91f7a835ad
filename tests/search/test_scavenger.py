"""Scavenger keeps the searcher's contract and does what the paper says."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import pytest

from mlcd.adapt.base import Speed
from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment
from mlcd.core.study import Stop
from mlcd.core.trial import Failure, FailureKind, Trial
from mlcd.engine.adapter import known_speeds
from mlcd.errors import InvalidJobError
from mlcd.forecast.estimate import Estimate
from mlcd.forecast.parallel import Placement
from mlcd.search.auto import Auto
from mlcd.search.base import Searcher
from mlcd.search.baselines import ExhaustiveSearch
from mlcd.search.choose import make_plan
from mlcd.search.expectations import expected_speeds
from mlcd.search.heterbo import HeterBO
from mlcd.search.options import open_strategy
from mlcd.search.outlook import outlook_of
from mlcd.search.scavenger import SETTLING_PROBES, Scavenger
from mlcd.search.space_models import SpaceModels, place, space_models
from mlcd.search.stored_models import why_none
from mlcd.testing.searcher_contract import SearcherContract, play
from scavenger_worlds import OFFERS, SPACE, earlier_job, study, trial, truth, value, with_moving_noise


class TestPartial(SearcherContract):
    def searcher(self) -> Searcher:
        return Scavenger()


@pytest.mark.slow
class TestFull(SearcherContract):
    def searcher(self) -> Searcher:
        return Scavenger(mode="full")


class TestNone(SearcherContract):
    def searcher(self) -> Searcher:
        return Scavenger(mode="none")


def test_the_search_starts_with_the_fewest_nodes_and_the_smallest_batch_of_the_cheapest_type() -> None:
    searched = play(Scavenger(), study(), truth)
    first = [each.deployment for each in searched.study.trials[:2]]
    assert [(each.offer.instance.name, each.nodes, each.batch_size) for each in first] == [
        ("slow", 1, 64),
        ("fast", 1, 64),
    ]


def test_it_grows_only_after_the_noise_has_settled() -> None:
    start = Scavenger().suggest(study())
    assert isinstance(start, Deployment)
    assert Scavenger().suggest(study().with_trial(trial(start))) != start
    settling = study()
    for _ in range(SETTLING_PROBES - 1):
        settling = settling.with_trial(with_moving_noise(trial(start)))
        assert Scavenger().suggest(settling) == start
    assert Scavenger().suggest(settling.with_trial(with_moving_noise(trial(start)))) != start


@pytest.mark.parametrize("mode", ["full", "none"])
def test_every_mode_stays_at_its_first_deployment_until_the_noise_has_settled(mode: Literal["full", "none"]) -> None:
    searcher = Scavenger(mode=mode)
    start = searcher.suggest(study())
    assert isinstance(start, Deployment)
    assert searcher.suggest(study().with_trial(with_moving_noise(trial(start)))) == start
    assert searcher.suggest(study().with_trial(trial(start))) != start


@pytest.mark.parametrize(
    "option", [{"per_type": 0}, {"types": 0}, {"types": -2}, {"good_enough": -0.1}, {"good_enough": math.nan}]
)
def test_numbers_that_make_no_sense_are_refused(option: dict[str, float]) -> None:
    with pytest.raises(InvalidJobError, match="should be"):
        open_strategy("scavenger", option)


@pytest.mark.parametrize(
    ("aim", "limits"),
    [
        (Aim.FASTEST, {}),
        (Aim.CHEAPEST, {}),
        (Aim.CHEAPEST, {"deadline_seconds": 8 * 3600.0}),
        (Aim.FASTEST, {"budget_usd": 60.0}),
    ],
)
def test_it_ends_close_to_the_oracle(aim: Aim, limits: dict[str, float]) -> None:
    """The paper's own bounds beyond an oracle that never looks: 13 % of time, 9 % of cost."""
    job = study(aim, **limits)
    searched = play(Scavenger(), job, truth)
    assert searched.stop.choice is not None
    able = [each for each in SPACE if job.goal.allows(*_training(each))]
    oracle = min(value(job, each) for each in able)
    seconds, usd = _training(searched.stop.choice)
    spent = searched.study.spent
    assert job.goal.allows(spent.seconds + seconds, spent.usd + usd)
    assert job.goal.value(spent.seconds + seconds, spent.usd + usd) < (1.13 if aim is Aim.FASTEST else 1.09) * oracle
    assert value(job, searched.stop.choice) < 1.03 * oracle


def test_partial_profiles_a_small_part_of_what_full_does() -> None:
    partial, full = play(Scavenger(), study(), truth), play(Scavenger(mode="full"), study(), truth)
    assert len(full.study.trials) == len(SPACE)
    assert len(partial.study.trials) < len(SPACE) / 3
    assert full.stop.choice is not None
    assert value(study(), full.stop.choice) < 1.03 * min(value(study(), each) for each in SPACE)


def test_the_plans_numbers_are_the_models_numbers() -> None:
    searched = play(Scavenger(), study(), truth)
    assert searched.stop.choice is not None
    plan = make_plan(searched.study, searched.stop, expected_speeds(Scavenger(), searched.study))
    models = space_models(searched.study)
    untried = [each for each in plan.alternatives if each.why_not.startswith("not tried")]
    assert untried
    for each in untried:
        assert each.forecast is not None
        foretold = models.training.training_seconds(place(each.deployment))
        assert each.forecast.seconds == pytest.approx(foretold.value)
        working = models.training_seconds(each.deployment)
        assert (each.forecast.low_seconds, each.forecast.high_seconds) == pytest.approx((working.low, working.high))


def test_the_choice_need_not_have_been_tried_and_is_forecast_by_the_models() -> None:
    """With stored models only; the plan then says that nothing was measured."""
    job = replace(study(), other_jobs=(earlier_job(),))
    stop = Scavenger(mode="none").suggest(job)
    assert isinstance(stop, Stop)
    plan = make_plan(job, stop, expected_speeds(Scavenger(mode="none"), job))
    assert "it was not tried" in plan.reason
    assert (
        plan.forecast.low_seconds
        < job.training_seconds(plan.deployment, truth(plan.deployment))
        < plan.forecast.high_seconds
    )


@pytest.mark.parametrize("likeness", ["the same program", "the same program with other arguments or variables"])
def test_mode_none_makes_no_probe_and_says_how_good_the_stored_models_are(likeness: str) -> None:
    job = replace(study(), other_jobs=(earlier_job(likeness),))
    stop = Scavenger(mode="none").suggest(job)
    assert isinstance(stop, Stop)
    assert stop.choice is not None
    assert value(job, stop.choice) < 1.05 * min(value(job, each) for each in SPACE)
    assert f"no probe was needed: the models of past-1 ({likeness}) rest on 12 profiles" in stop.reason
    assert "each foretold from the others within" in stop.reason


def test_mode_none_without_a_stored_model_goes_on_as_partial_and_says_why() -> None:
    for others in ((), (earlier_job(""),)):  # nothing at all, or another program's
        job = replace(study(), other_jobs=others)
        searched = play(Scavenger(mode="none"), job, truth)
        assert searched.study.trials
        assert (
            "mode none went on as partial, for no earlier job of this program left 3 profiles" in searched.stop.reason
        )


def test_mode_none_does_not_trust_models_that_foretell_their_own_profiles_badly() -> None:
    past = earlier_job()
    wild = [trial(each.deployment, 4.0 if number % 3 == 0 else 1.0) for number, each in enumerate(past.trials)]
    searched = play(Scavenger(mode="none"), replace(study(), other_jobs=(replace(past, trials=tuple(wild)),)), truth)
    assert searched.study.trials
    assert "more than 20%" in searched.stop.reason


def test_a_deployment_that_was_probed_again_is_one_profile_and_foretells_itself_for_nobody() -> None:
    """A search stays at its first deployment while the gradient noise moves: those three probes say nothing of others."""
    past = earlier_job()
    again = replace(past, trials=(past.trials[0],) * 3)
    searched = play(Scavenger(mode="none"), replace(study(), other_jobs=(again,)), truth)
    assert searched.study.trials
    assert "no earlier job of this program left 3 profiles" in searched.stop.reason
    wild = [trial(each.deployment, 4.0 if number % 3 == 0 else 1.0) for number, each in enumerate(past.trials)]
    often = replace(past, trials=tuple(one for one in wild for _ in range(3)))
    once = replace(past, trials=tuple(wild))
    told = [why_none(replace(study(), other_jobs=(job,)), 0.2) for job in (often, once)]
    assert told[0] == told[1]


def test_good_models_by_which_nothing_keeps_the_limits_are_told_as_such() -> None:
    """The earlier job took ten times as long: this one is probed, and keeps its deadline."""
    job = replace(study(deadline_seconds=8 * 3600.0), other_jobs=(earlier_job(factor=10.0),))
    stop = play(Scavenger(mode="none"), job, truth).stop
    assert stop.choice is not None
    assert "but nothing was expected to keep the limits by them" in stop.reason
    assert "more than 20%" not in stop.reason


def test_a_stored_model_does_not_break_a_deadline_that_nothing_keeps() -> None:
    job = replace(study(deadline_seconds=600.0), other_jobs=(earlier_job(),))
    answer = Scavenger(mode="none").suggest(job)
    assert not isinstance(answer, Stop) or answer.choice is None


def test_nothing_is_chosen_untried_whose_devices_would_hold_more_than_was_seen_to_fit() -> None:
    job = study()
    for each in SPACE:
        if each.batch_size == 64 and each.nodes in (1, 4, 8):
            job = job.with_trial(trial(each))
    stop = Scavenger(per_type=3).suggest(job)
    assert isinstance(stop, Stop)
    assert stop.choice is not None
    assert place(stop.choice).micro_batch <= 64


def test_a_guess_that_promises_hardly_more_than_what_was_measured_is_not_taken() -> None:
    """The median of a training that is hardly known is no reason: on average it takes longer."""
    start = next(each for each in SPACE if (each.offer.instance.name, each.nodes, each.batch_size) == ("slow", 1, 512))
    beside = replace(start, nodes=8)
    job = study(Aim.FASTEST, space=(start, beside)).with_trial(trial(start))
    models = space_models(job)
    guess = models.training_seconds(beside)
    assert guess.log_spread > 0.3
    level = job.training_seconds(start, truth(start)) / guess.value
    known = {start.batch_size or 0: job.work(start)}
    on_average = math.exp(0.5 * guess.log_spread**2)
    for share, taken in ((0.97, start), (0.5 / on_average, beside)):
        unsure = replace(models, training=replace(models.training, steps={"slow": _Scaled(models, level * share)}))
        assert outlook_of(replace(job, samples_at=known), unsure).choice == taken


@dataclass(frozen=True)
class _Scaled:
    """Step times of untried deployments, so many times as long."""

    models: SpaceModels
    factor: float

    def step(self, placement: Placement) -> Estimate:
        return self.models.training.steps["slow"].step(placement).scaled(self.factor)


def test_it_says_for_which_deployment_what_is_left_of_the_limits_is_needed() -> None:
    """The models expect more of another one, but what is measured is held: that one takes all that is left."""
    slow = SPACE[0]
    job = replace(study(), earlier=(earlier_job().trials,)).with_trial(trial(slow))
    seconds = job.training_seconds(slow, truth(slow))
    job = replace(job, goal=Goal(Aim.FASTEST, deadline_seconds=job.spent.seconds + 1.0001 * seconds))
    stop = Scavenger().suggest(job)
    assert isinstance(stop, Stop)
    assert stop.choice != slow
    assert stop.reason == f"what is left of the limits is needed to train on {slow}"


def test_memory_that_is_sold_by_the_gib_moves_the_choice_to_smaller_batches() -> None:
    """Figure 12 of the paper: with the memory that its batch needs in the price, a large batch is dearer."""

    def priced(usd_per_gib_hour: float) -> tuple[Deployment, ...]:
        dearer = {name: replace(each, usd_per_gib_hour=usd_per_gib_hour) for name, each in OFFERS.items()}
        return tuple(
            replace(each, offer=dearer[each.offer.instance.name], memory_gib=(each.batch_size or 0) / each.nodes / 8)
            for each in SPACE
        )

    chosen = [play(Scavenger(), study(space=priced(usd)), truth).stop.choice for usd in (0.0, 0.5)]
    shares = [(each.batch_size or 0) / each.nodes for each in chosen if each is not None]
    assert shares[1] < shares[0]


def test_earlier_jobs_on_both_families_tell_of_the_one_that_was_not_tried() -> None:
    start = trial(SPACE[0])
    alone = space_models(study().with_trial(start))
    helped = space_models(replace(study(), other_jobs=(earlier_job("", factor=3.0),)).with_trial(start))
    fast = next(each for each in SPACE if each.offer.instance.name == "fast")
    assert not alone.knows(fast)
    assert helped.knows(fast)
    assert helped.speed(fast).low < truth(fast) < helped.speed(fast).high


def test_beliefs_of_every_strategy_are_the_models_once_a_family_was_seen_enough_of() -> None:
    job = study()
    for each in SPACE:
        if each.offer.instance.name == "slow" and (each.nodes, each.batch_size) in ((1, 64), (8, 512), (1, 512)):
            job = job.with_trial(trial(each))
    expected = {belief.deployment: belief for belief in expected_speeds(HeterBO(), job)}
    models = space_models(job)
    for each in SPACE:
        slow = each.offer.instance.name == "slow"
        assert expected[each].modelled == slow
        if slow:
            assert expected[each] == models.belief(each)


@pytest.mark.parametrize("searcher", [HeterBO(), Scavenger()])
def test_nothing_is_expected_of_what_failures_rule_out(searcher: Searcher) -> None:
    """A batch that did not fit leaves no speed for a larger one on the same machines, whatever the law says."""
    job = study()
    slow = [each for each in SPACE if each.offer.instance.name == "slow"]
    for each in slow:
        if (each.nodes, each.batch_size) in ((1, 64), (8, 512), (3, 64)):
            job = job.with_trial(trial(each))
    full = next(each for each in slow if (each.nodes, each.batch_size) == (1, 256))
    job = job.with_trial(Trial(full, Failure(FailureKind.OUT_OF_MEMORY), 60.0, 0.1))
    expected = {belief.deployment for belief in expected_speeds(searcher, job)}
    larger = {each for each in slow if (each.batch_size or 0) / each.nodes >= 256}
    assert {each.batch_size for each in larger} == {256, 512}
    assert not expected & larger
    assert expected >= set(slow) - larger
    assert not larger & known_speeds(job, searcher).keys()


@pytest.mark.parametrize("searcher", [HeterBO(), Auto(), ExhaustiveSearch()])
def test_moves_while_training_go_by_the_models_whatever_the_strategy(searcher: Searcher) -> None:
    job = study()
    for each in SPACE:
        if each.offer.instance.name == "slow" and (each.nodes, each.batch_size) in ((1, 64), (8, 512), (1, 512)):
            job = job.with_trial(trial(each))
    models, speeds = space_models(job), known_speeds(job, searcher)
    for each in SPACE:
        if each.offer.instance.name == "slow" and each not in job.tried:
            foretold = models.belief(each)
            assert speeds[each] == Speed(foretold.samples_per_second, foretold.low, foretold.high)


def test_what_an_earlier_job_of_the_program_profiled_is_not_profiled_again() -> None:
    """One probe shows how fast this job is beside it; the choice is then made by its shape."""
    job = replace(study(), earlier=(earlier_job(factor=2.0).trials,))
    searched = play(Scavenger(), job, truth)
    assert len(searched.study.trials) <= 3 < len(play(Scavenger(), study(), truth).study.trials)
    assert searched.stop.choice is not None
    assert value(job, searched.stop.choice) < 1.1 * min(value(job, each) for each in SPACE)


def _training(deployment: Deployment) -> tuple[float, float]:
    seconds = study().training_seconds(deployment, truth(deployment))
    return seconds, deployment.rental_usd(seconds)
