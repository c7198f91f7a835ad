"""The default search: what it chooses, when it stops, and that it keeps the limits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Stop, Study
from mlcd.search.auto import Auto
from mlcd.search.base import Searcher
from mlcd.testing.searcher_contract import SearcherContract, play, try_it

SpeedOf = Callable[[Deployment], float]


@pytest.mark.slow
class TestAutoKeepsItsPromises(SearcherContract):
    def searcher(self) -> Searcher:
        return Auto()


def offer(name: str, usd_per_hour: float, gpus: int = 0) -> Offer:
    return Offer("test", InstanceType(name, gpus=gpus), usd_per_hour, 64)


def space(*offers: Offer, nodes: tuple[int, ...] = (1, 2, 4, 8)) -> tuple[Deployment, ...]:
    return tuple(Deployment(each, count) for each in offers for count in nodes)


def amdahl(deployment: Deployment) -> float:
    """Ten samples a second for each dollar an hour, and a tenth of the work that does not divide."""
    return 10.0 * deployment.offer.usd_per_hour * deployment.nodes / (1.0 + 0.1 * (deployment.nodes - 1))


def study_of(deployments: tuple[Deployment, ...], goal: Goal, hours: float = 24.0) -> Study:
    return Study(goal, deployments, samples=hours * 3600.0 * max(map(amdahl, deployments)))


def test_one_probe_is_enough_when_one_deployment_dominates() -> None:
    deployments = space(offer("tiny", 0.1), offer("huge", 30.0), nodes=(1,))
    searched = play(Auto(), study_of(deployments, Goal(Aim.FASTEST)), amdahl)
    assert searched.stop.choice == deployments[1]
    assert len(searched.study.trials) == 1


def test_a_short_job_is_probed_less_than_a_long_one() -> None:
    deployments = space(offer("a.large", 1.0), offer("b.large", 1.1), offer("c.large", 0.9))
    short, long = (play(Auto(), study_of(deployments, Goal(Aim.FASTEST), hours), amdahl) for hours in (2.0, 200.0))
    assert len(short.study.trials) < len(long.study.trials)


def test_cheap_probes_come_first_when_types_are_alike_and_money_counts() -> None:
    sizes = [offer(f"c9.{2**k}xlarge", 0.2 * 2**k) for k in range(5)]
    goal = Goal(Aim.CHEAPEST, deadline_seconds=48 * 3600.0)
    first = Auto().suggest(study_of(space(*sizes), goal))
    assert isinstance(first, Deployment)
    dearest = max(each.usd_per_hour for each in space(*sizes))
    assert first.usd_per_hour <= dearest / 4


def test_the_reason_for_stopping_names_the_next_probe_and_its_price() -> None:
    deployments = space(offer("tiny", 0.1), offer("huge", 30.0))
    stop = play(Auto(), study_of(deployments, Goal(Aim.CHEAPEST)), amdahl).stop
    found = re.search(r"would cost \$([\d.]+) and is expected to save about \$([\d.]+), and", stop.reason)
    assert found is not None, stop.reason
    assert 0.0 <= float(found[2]) <= float(found[1])


def test_a_reason_in_shares_compares_shares_and_one_in_time_times() -> None:
    deployments = space(offer("tiny", 0.1), offer("huge", 30.0))
    balanced, fastest = (
        play(Auto(), study_of(deployments, Goal(aim)), amdahl).stop.reason for aim in (Aim.BALANCED, Aim.FASTEST)
    )
    assert re.search(r"would cost .*% of the total \(.* and \$.*\) and is expected to save .*%", balanced)
    assert re.search(r"would cost [\dhms. ]+ and is expected to save (about|less than) [\dhms. ]+, and", fastest)


def test_without_any_probe_the_expected_best_is_chosen_unless_a_limit_forbids() -> None:
    deployments = space(offer("tiny", 0.1), offer("huge", 30.0))
    study = replace(study_of(deployments, Goal(Aim.FASTEST)), max_probes=0)
    stop = Auto().suggest(study)
    assert isinstance(stop, Stop)
    assert stop.choice is not None
    assert stop.choice.offer.name == "huge"
    limited = Auto().suggest(replace(study, goal=Goal(Aim.CHEAPEST, deadline_seconds=90_000.0)))
    assert isinstance(limited, Stop)
    assert limited.choice is None


def test_an_earlier_study_of_the_job_saves_probes() -> None:
    deployments = space(*(offer(f"{family}.large", 1.0) for family in "abcdef"))

    def quirky(deployment: Deployment) -> float:
        return amdahl(deployment) * (1.0 + 0.15 * "abcdef".index(deployment.offer.name[0]))

    study = study_of(deployments, Goal(Aim.FASTEST), hours=48.0)
    first = play(Auto(), study, quirky)
    trials = tuple(try_it(study, each, quirky) for each in deployments)
    again = play(Auto(), replace(study, earlier=(trials,)), quirky)
    assert len(again.study.trials) < len(first.study.trials)
    assert again.stop.choice == max(deployments, key=quirky)


def test_what_is_pending_is_not_tried_again_and_the_search_still_ends() -> None:
    deployments = space(*(offer(f"{family}.large", 1.0) for family in "ab"), nodes=(1, 2))
    study = study_of(deployments, Goal(Aim.FASTEST), hours=200.0)
    waiting: tuple[Deployment, ...] = ()
    while isinstance(answer := Auto().suggest(replace(study, pending=waiting)), Deployment):
        assert answer not in waiting
        waiting = (*waiting, answer)
    assert "still being tried" in answer.reason


def test_a_larger_batch_is_found_when_it_pays() -> None:
    deployments = tuple(
        Deployment(offer("a100x1", 3.0, gpus=1), nodes, batch) for nodes in (1, 2, 4) for batch in (32, 128, 512)
    )

    def dilutes(deployment: Deployment) -> float:
        batch = deployment.batch_size or 1
        return batch / (0.05 + batch / (400.0 * deployment.nodes))

    samples_at = {32: 3.0e7, 128: 3.1e7, 512: 3.3e7}
    study = Study(Goal(Aim.FASTEST), deployments, samples=3.0e7, samples_at=samples_at)
    searched = play(Auto(), study, dilutes)
    assert searched.stop.choice == Deployment(offer("a100x1", 3.0, gpus=1), 4, 512)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, 100))
def test_limits_are_kept_on_random_surfaces(first: int) -> None:
    broken, unmet = 0, 0
    for seed in range(first, first + 100):
        study, truth = random_problem(seed)
        searched = play(Auto(), study, truth)
        choice = searched.stop.choice
        if choice is None:
            unmet += 1
            continue
        total = searched.study.total(choice, truth(choice))
        broken += not study.goal.allows(total.seconds, total.usd)
    assert broken == 0
    assert unmet <= 5


def within(study: Study, share: float) -> Study:
    """The same with that much of its limit."""
    goal = study.goal
    deadline, budget = goal.deadline_seconds, goal.budget_usd
    return replace(
        study,
        goal=replace(
            goal,
            deadline_seconds=None if deadline is None else share * deadline,
            budget_usd=None if budget is None else share * budget,
        ),
    )


def test_a_goal_that_nothing_can_reach_is_refused_after_a_handful_of_probes() -> None:
    counts = []
    for seed in range(20):
        study, truth = random_problem(seed)  # its limit is twice what the best deployment takes
        searched = play(Auto(), within(study, 0.22), truth)
        assert searched.stop.choice is None
        counts.append(len(searched.study.trials))
    assert np.mean(counts) <= 7
    assert max(counts) <= 12


def test_a_goal_that_nothing_can_reach_is_refused_early_with_probes_side_by_side() -> None:
    for seed in range(5):
        study, truth = random_problem(seed)
        study, stop = _two_at_a_time(within(study, 0.22), truth)
        assert stop.choice is None
        assert len(study.trials) <= 13


def _two_at_a_time(study: Study, truth: SpeedOf) -> tuple[Study, Stop]:
    under_way: list[Deployment] = []
    while True:
        step = Auto().suggest(replace(study, pending=tuple(under_way)))
        if isinstance(step, Deployment):
            under_way.append(step)
        elif not under_way:
            return study, step
        if len(under_way) == 2 or isinstance(step, Stop):
            study = study.with_trial(try_it(study, under_way.pop(0), truth))


def test_a_goal_that_some_deployment_reaches_is_not_refused() -> None:
    for seed in range(20):
        study, truth = random_problem(seed)
        assert play(Auto(), within(study, 0.75), truth).stop.choice is not None


def random_problem(seed: int) -> tuple[Study, SpeedOf]:
    """Four types of random rate, scaling and price, and a limit twice what the best deployment takes."""
    rng = np.random.default_rng(seed)
    offers = [offer(f"f{k}.large", float(np.exp(rng.uniform(-2, 2)))) for k in range(4)]
    rate = {each.name: each.usd_per_hour * float(np.exp(0.4 * rng.standard_normal())) for each in offers}
    drag = {each.name: float(np.exp(rng.uniform(-5, -1))) for each in offers}

    def truth(deployment: Deployment) -> float:
        extra = deployment.nodes - 1
        return rate[deployment.offer.name] * deployment.nodes / (1.0 + drag[deployment.offer.name] * extra)

    deployments = space(*offers)
    samples = 12 * 3600.0 * max(map(truth, deployments))
    cheapest = min(each.usd(samples / truth(each)) for each in deployments)
    deadline = Goal(Aim.CHEAPEST, deadline_seconds=24 * 3600.0)
    budget = Goal(Aim.FASTEST, budget_usd=2.0 * cheapest)
    return Study(budget if seed % 2 else deadline, deployments, samples, seed=seed), truth


def test_nineteen_of_twenty_truths_lie_within_the_bands() -> None:
    within = []
    for seed in range(40):
        study, truth = random_problem(seed)
        for row in np.random.default_rng(seed).permutation(len(study.space))[:4]:
            study = study.with_trial(try_it(study, study.space[row], truth))
        beliefs = [each for each in Auto().beliefs(study) if each.deployment not in study.tried]
        within += [each.low <= truth(each.deployment) <= each.high for each in beliefs]
    assert 0.90 <= np.mean(within) <= 0.995


def test_a_measured_deployment_is_believed_to_within_its_error() -> None:
    study, truth = random_problem(3)
    study = study.with_trial(try_it(study, study.space[5], truth))
    belief = Auto().beliefs(study)[5]
    seen = study.trials[0].measurement
    assert seen is not None
    assert math.isclose(belief.samples_per_second, seen.samples_per_second, rel_tol=0.02)
    assert belief.high / belief.low < math.exp(4 * 0.021)
