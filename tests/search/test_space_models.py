"""The models of a study: what they rest on and how sure they are."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

import pytest

from mlcd.core.machines import Deployment
from mlcd.core.study import Study
from mlcd.forecast.estimate import Estimate
from mlcd.search.space_models import space_models
from scavenger_worlds import SPACE, earlier_job, study, trial, truth
from search_worlds import measured

CORNERS = tuple(
    each
    for each in SPACE
    if each.offer.instance.name == "slow" and (each.nodes, each.batch_size) in ((1, 64), (1, 512), (8, 64), (8, 512))
)
BETWEEN = next(
    each for each in SPACE if each.offer.instance.name == "slow" and each.nodes == 3 and each.batch_size == 128
)


def after(*, error: float = 0.01, factor: float = 1.0, job: Study | None = None) -> Study:
    found = study() if job is None else job
    for each in CORNERS:
        found = found.with_trial(measured(each, truth(each, factor), error))
    return found


def test_four_profiles_foretell_what_lies_between() -> None:
    speed = space_models(after()).speed(BETWEEN)
    assert speed.value == pytest.approx(truth(BETWEEN), rel=0.1)
    assert speed.low < truth(BETWEEN) < speed.high


def test_probes_that_went_unsteadily_widen_the_band() -> None:
    steady, unsteady = (space_models(after(error=error)).speed(BETWEEN) for error in (0.01, 0.2))
    assert unsteady.log_spread > 1.3 * steady.log_spread


def test_profiles_of_an_earlier_job_are_brought_to_the_level_of_the_own_ones() -> None:
    """The earlier job's steps took three times as long: its shape counts, its speed does not."""
    job = replace(study(), earlier=(earlier_job(factor=3.0).trials,)).with_trial(trial(CORNERS[0]))
    assert space_models(job).speed(BETWEEN).value == pytest.approx(truth(BETWEEN), rel=0.1)


def test_what_an_earlier_job_knew_nothing_of_is_no_difference_between_the_jobs() -> None:
    """It ran on single slow nodes. That eight of them exchange slowly says nothing of how fast others are."""
    seen = {("slow", 1, 64), ("slow", 1, 128), ("slow", 1, 512), ("fast", 1, 64), ("fast", 1, 512), ("fast", 3, 512)}
    past = tuple(trial(each) for each in SPACE if (each.offer.instance.name, each.nodes, each.batch_size) in seen)
    job = replace(study(), earlier=(past,)).with_trial(trial(CORNERS[0])).with_trial(trial(CORNERS[3], factor=4.0))
    models = space_models(job)
    for each in SPACE:
        if each.offer.instance.name == "fast" and each.nodes == 1:
            speed = models.speed(each)
            assert speed.value == pytest.approx(truth(each), rel=0.15)
            assert speed.low < truth(each) < speed.high


def test_how_alike_an_earlier_job_is_widens_the_band_where_only_that_one_ran() -> None:
    fast = next(each for each in SPACE if each.offer.instance.name == "fast" and each.nodes == 2)
    job = replace(study(), earlier=(earlier_job().trials,))
    elsewhere = replace(job, earlier=(tuple(each for each in earlier_job().trials if "fast" in str(each.deployment)),))
    compared, never = (space_models(each.with_trial(trial(CORNERS[0]))).speed(fast) for each in (job, elsewhere))
    assert space_models(job).speed(fast).log_spread < compared.log_spread < never.log_spread
    assert never.log_spread > 0.3


def test_a_spread_of_the_samples_is_part_of_the_trainings_band_and_not_of_the_speeds() -> None:
    sure, unsure = after(), replace(after(), samples_spread={128: 0.3})
    one, other = space_models(sure), space_models(unsure)
    assert one.speed(BETWEEN) == other.speed(BETWEEN)
    assert other.training_seconds(BETWEEN).log_spread > 0.3 > one.training_seconds(BETWEEN).log_spread


def test_families_of_too_few_profiles_are_left_to_the_strategy() -> None:
    job = study().with_trial(trial(CORNERS[0])).with_trial(trial(CORNERS[1]))
    assert space_models(job).knows(BETWEEN)
    assert not space_models(job, least_profiles=3).knows(BETWEEN)


def test_the_more_the_job_showed_of_one_family_the_more_is_known_of_another() -> None:
    """A large piece and a small one by themselves and two nodes together tell constant, load and exchange apart."""

    def foretold(*seen: tuple[int, int]) -> dict[Deployment, Estimate]:
        job = replace(study(), other_jobs=(earlier_job("", factor=3.0),))
        for each in SPACE:
            if each.offer.instance.name == "slow" and (each.nodes, each.batch_size) in seen:
                job = job.with_trial(trial(each))
        models = space_models(job)
        return {each: models.speed(each) for each in SPACE if each.offer.instance.name == "fast"}

    one, three = foretold((1, 64)), foretold((1, 64), (1, 512), (2, 64))
    for each, speed in three.items():
        assert speed.low < truth(each) < speed.high
        assert speed.log_spread <= one[each].log_spread + 0.05
    assert mean(each.log_spread for each in three.values()) < 0.9 * mean(each.log_spread for each in one.values())
    assert _mean_error(three) < min(_mean_error(one), 0.1)


def _mean_error(foretold: dict[Deployment, Estimate]) -> float:
    return mean(abs(speed.value / truth(each) - 1.0) for each, speed in foretold.items())
