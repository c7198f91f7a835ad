"""The promises of a Searcher as a test class: subclass it, name the searcher, and pytest checks it.

class TestMySearch(SearcherContract):
    def searcher(self) -> Searcher:
        return MySearch()
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Stop, Study
from mlcd.core.trial import Failure, FailureKind, Measurement, Trial
from mlcd.search.base import Searcher
from mlcd.search.limits import slow_total
from mlcd.search.options import options_of
from mlcd.search.trials import measured_trials

Truth = Callable[[Deployment], float | None]  # samples per second; None: it runs out of memory


@dataclass(frozen=True)
class Searched:
    """A search played to its end."""

    study: Study
    stop: Stop
    states: tuple[Study, ...]  # before each probe


def play(searcher: Searcher, study: Study, truth: Truth) -> Searched:
    """Ask and answer until the searcher stops; a search that goes on past twice the space is an error."""
    states: list[Study] = []
    for _ in range(2 * len(study.space) + 2):
        answer = searcher.suggest(study)
        if isinstance(answer, Stop):
            return Searched(study, answer, tuple(states))
        states.append(study)
        study = study.with_trial(try_it(study, answer, truth))
    raise AssertionError(f"{searcher} does not come to an end")


def try_it(study: Study, deployment: Deployment, truth: Truth) -> Trial:
    """A trial that takes what it was expected to take and sees the truth with 2 % of error."""
    seconds = study.probe_seconds(deployment)
    speed = truth(deployment)
    if speed is None:
        failure = Failure(FailureKind.OUT_OF_MEMORY)
        return Trial(deployment, failure, seconds, deployment.usd(seconds))
    seen = speed * math.exp(0.02 * _standard_normal(deployment.key))
    measurement = Measurement(seen, seen / math.exp(0.0392), seen * math.exp(0.0392))
    return Trial(deployment, measurement, seconds, deployment.usd(seconds))


def scaling_truth(deployment: Deployment) -> float:
    """A job that scales out well, then ever worse: each node adds less, and talking to many slows all down."""
    instance = deployment.offer.instance
    rate = instance.vcpus * 4.0 + instance.gpus * 200.0
    batch = (deployment.batch_size or 64) / 64.0
    efficiency = batch / (0.5 + batch)
    return rate * efficiency * deployment.nodes / (1.0 + 0.03 * math.pow(deployment.nodes - 1, 1.5))


def crowded_truth(deployment: Deployment) -> float | None:
    """The same, but machines with little memory fail unless many share the batch."""
    local_batch = (deployment.batch_size or 64) / deployment.nodes
    return None if local_batch > 2.0 * deployment.offer.instance.memory_gib else scaling_truth(deployment)


def small_space(
    types: int = 5, most_nodes: int = 12, batch_sizes: tuple[int | None, ...] = (None,)
) -> tuple[Deployment, ...]:
    """Types from tiny to huge, prices a thousand times apart."""
    offers = [_offer(number, types, most_nodes) for number in range(types)]
    return tuple(
        Deployment(offer, nodes, batch)
        for offer in offers
        for nodes in range(1, most_nodes + 1)
        for batch in batch_sizes
    )


def make_study(goal: Goal, space: tuple[Deployment, ...] | None = None, hours: float = 24.0, seed: int = 0) -> Study:
    """A study of a job that takes the fastest deployment of the space that many hours."""
    space = small_space() if space is None else space
    return Study(goal, space, samples=hours * 3600.0 * max(map(scaling_truth, space)), seed=seed)


UNLIMITED = (Goal(Aim.FASTEST), Goal(Aim.CHEAPEST), Goal(Aim.BALANCED))


class SearcherContract:
    """What every search strategy promises. Strategies that ignore the limits say so: keeps_reserve = False."""

    keeps_reserve = True
    probes = True  # False: it chooses by reckoning alone

    def searcher(self) -> Searcher:
        """The searcher under test, with the options that its users have by default."""
        raise NotImplementedError

    def goals(self) -> tuple[Goal, ...]:
        """Goals with and without limits that the small space can keep."""
        deadline = Goal(Aim.CHEAPEST, deadline_seconds=48 * 3600.0)
        cheapest = min(_training_usd(make_study(deadline), each) for each in small_space())
        return (*UNLIMITED, deadline, Goal(Aim.FASTEST, budget_usd=3.0 * cheapest))

    def test_the_same_study_gives_the_same_answer(self) -> None:
        for goal in self.goals():
            searched = play(self.searcher(), make_study(goal), scaling_truth)
            for state in (*searched.states, searched.study):
                again = replace(state, space=tuple(state.space))
                assert self.searcher().suggest(again) == self.searcher().suggest(state)

    def test_every_search_ends_and_chooses_from_the_space(self) -> None:
        for goal in self.goals():
            for seed in (0, 1):
                searched = play(self.searcher(), make_study(goal, seed=seed), scaling_truth)
                assert searched.stop.choice in searched.study.space
                assert searched.stop.reason

    def test_nothing_is_tried_twice_or_while_it_is_pending(self) -> None:
        for goal in self.goals():
            searched = play(self.searcher(), make_study(goal), scaling_truth)
            tried = [trial.deployment for trial in searched.study.trials]
            assert len(tried) == len(set(tried))
            for state in searched.states[:4]:
                first = self.searcher().suggest(state)
                assert isinstance(first, Deployment)
                assert self.searcher().suggest(replace(state, pending=(first,))) != first

    def test_the_cap_on_probes_is_kept(self) -> None:
        for most in (0, 1, 3):
            study = replace(make_study(Goal(Aim.FASTEST)), max_probes=most)
            assert len(play(self.searcher(), study, scaling_truth).study.trials) <= most

    def test_no_probe_takes_away_the_last_feasible_deployment(self) -> None:
        if not self.keeps_reserve:
            return
        for goal in self.goals():
            searched = play(self.searcher(), make_study(goal, hours=6.0), scaling_truth)
            states = (*searched.states[1:], searched.study)
            for before, after in zip(searched.states, states, strict=True):
                if _feasible(before, before):
                    assert _feasible(before, after)

    def test_a_goal_out_of_reach_is_given_up(self) -> None:
        for goal in (Goal(Aim.CHEAPEST, deadline_seconds=60.0), Goal(Aim.FASTEST, budget_usd=0.001)):
            searched = play(self.searcher(), make_study(goal), scaling_truth)
            if self.keeps_reserve:
                assert searched.stop.choice is None
                assert searched.study.spent.usd <= (goal.budget_usd or math.inf)

    def test_failures_are_lived_with(self) -> None:
        space = small_space(batch_sizes=(16, 64, 256))
        searched = play(self.searcher(), make_study(Goal(Aim.FASTEST), space), crowded_truth)
        if self.probes:
            assert searched.stop.choice is not None
            assert crowded_truth(searched.stop.choice) is not None

    def test_a_program_that_needs_a_gpu_is_tried_on_no_other_machine_without_one(self) -> None:
        study = make_study(Goal(Aim.FASTEST))
        bare = next(each for each in study.space if not each.offer.instance.gpus)
        study = study.with_trial(Trial(bare, Failure(FailureKind.NO_GPU), 60.0, bare.usd(60.0)))
        searched = play(self.searcher(), study, scaling_truth)
        assert all(trial.deployment.offer.instance.gpus for trial in searched.study.trials[1:])
        assert searched.stop.choice is None or searched.stop.choice.offer.instance.gpus

    def test_when_everything_fails_nothing_is_chosen(self) -> None:
        searched = play(self.searcher(), make_study(Goal(Aim.FASTEST)), lambda _: None)
        if self.probes:
            assert searched.stop.choice is None

    def test_one_deployment_is_enough(self) -> None:
        space = small_space(types=1, most_nodes=1)
        searched = play(self.searcher(), make_study(Goal(Aim.FASTEST), space), scaling_truth)
        assert searched.stop.choice == space[0]

    def test_thousands_of_offers_are_searched(self) -> None:
        space = small_space(types=300, most_nodes=10)
        study = replace(make_study(Goal(Aim.CHEAPEST), space), max_probes=15)
        assert play(self.searcher(), study, scaling_truth).stop.choice in set(space)

    def test_repeated_measurements_are_taken_in(self) -> None:
        study = make_study(Goal(Aim.FASTEST))
        for each in (study.space[0], study.space[0], study.space[20], study.space[20]):
            study = study.with_trial(try_it(study, each, scaling_truth))
        assert play(self.searcher(), study, scaling_truth).stop.choice in study.space

    def test_earlier_jobs_and_parameter_servers_are_accepted(self) -> None:
        space = tuple(replace(each, servers=1) for each in small_space() if each.nodes > 1)
        study = make_study(Goal(Aim.CHEAPEST), space)
        earlier = tuple(try_it(study, each, scaling_truth) for each in space[:3])
        searched = play(self.searcher(), replace(study, earlier=(earlier,)), scaling_truth)
        assert searched.stop.choice in space

    def test_every_option_has_a_description_and_fits_its_type(self) -> None:
        for option in options_of(type(self.searcher())):
            assert option.about, f"describe '{option.name}': Annotated[…, \"what it does\"]"
            TypeAdapter(option.type).validate_python(option.default)

    def test_beliefs_are_finite_and_ordered(self) -> None:
        searched = play(self.searcher(), make_study(Goal(Aim.BALANCED)), crowded_truth)
        for state in (*searched.states[:3], searched.study):
            for belief in self.searcher().beliefs(state):
                assert 0.0 <= belief.low <= belief.samples_per_second <= belief.high < math.inf


def _offer(number: int, types: int, most_nodes: int) -> Offer:
    size = 2 ** (number % 5)
    gpus = size // 4 if number % 3 == 2 else 0
    instance = InstanceType(f"type-{number}", vcpus=2.0 * size, memory_gib=8.0 * size, gpus=gpus)
    dearness = 1.0 + number % 7 * 0.2
    price = 0.02 * 1000.0 ** (number / max(1, types - 1)) * dearness
    return Offer("contract", instance, price, most_nodes)


def _training_usd(study: Study, deployment: Deployment) -> float:
    return deployment.usd(study.training_seconds(deployment, scaling_truth(deployment)))


def _feasible(measured: Study, then: Study) -> list[Trial]:
    """The deployments measured in one state that surely keep the limits in another."""
    return [trial for trial in measured_trials(measured) if then.goal.allows(*_pair(then, trial))]


def _pair(study: Study, trial: Trial) -> tuple[float, float]:
    total = slow_total(study, trial)
    return total.seconds, total.usd


def _standard_normal(text: str) -> float:
    """Noise that depends on what is measured alone: a sum of twelve digits of its name."""
    digits = [(sum(map(ord, text)) * (7 + 12 * i) + len(text) * i) % 101 / 100.0 for i in range(12)]
    return sum(digits) - 6.0
