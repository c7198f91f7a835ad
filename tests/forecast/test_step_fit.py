from __future__ import annotations

import numpy as np
import pytest

from forecast.steps import LAW, placements
from mlcd.errors import UserError
from mlcd.forecast.design import choose_profiles, profile_partly
from mlcd.forecast.parallel import Placement
from mlcd.forecast.step_fit import Profile, StepSpace, fit_steps


def test_parameters_of_a_known_job_are_recovered() -> None:
    law = fit_steps(placements(), [Profile(one, LAW.step_seconds(one)) for one in placements()]).law()
    assert law.alpha_seconds == pytest.approx(LAW.alpha_seconds, rel=0.1)
    assert law.beta_seconds == pytest.approx(LAW.beta_seconds, rel=0.05)
    assert law.sync_ratio((4, 2)) == pytest.approx(LAW.sync_ratio((4, 2)), abs=0.15)


def test_six_profiles_of_each_type_foretell_the_rest() -> None:
    model = profile_partly(placements(), LAW.step_seconds)
    errors = [abs(model.step(one).value / LAW.step_seconds(one) - 1) for one in placements()]
    assert np.mean(errors) < 0.02


def test_no_type_is_profiled_more_often_than_allowed() -> None:
    asked: list[Placement] = []

    def profile(placement: Placement) -> float:
        asked.append(placement)
        return LAW.step_seconds(placement)

    profile_partly(placements(), profile, per_type=6)
    assert len(asked) == len(set(asked)) == 18
    assert all(sum(one.instance == f"t4x{devices}" for one in asked) == 6 for devices in (1, 2, 4))


def test_a_design_takes_what_was_profiled_into_account() -> None:
    space = StepSpace(tuple(placements()))
    first = choose_profiles(space, 2)
    assert choose_profiles(space, 3, first)[: len(first)] == first


def test_intervals_hold_noisy_steps_about_as_often_as_they_say() -> None:
    held = []
    for seed in range(6):
        noise = np.random.default_rng(seed)
        truth = {one: LAW.step_seconds(one) * float(np.exp(noise.normal(0, 0.035))) for one in placements()}
        model = profile_partly(placements(), truth.__getitem__)
        held += [model.step(one).low <= truth[one] <= model.step(one).high for one in truth]
    assert np.mean(held) >= 0.9


def test_one_profile_gives_a_wide_interval_far_away() -> None:
    space = placements()
    model = fit_steps(space, [Profile(space[0], LAW.step_seconds(space[0]))])
    near, far = model.step(space[0]), model.step(space[-1])
    assert near.value == pytest.approx(LAW.step_seconds(space[0]), rel=0.05)
    assert near.log_spread < 0.1 < 0.5 < far.log_spread


def test_one_node_count_is_enough_to_fit() -> None:
    alone = [one for one in placements() if one.devices == 1]
    model = fit_steps(alone, [Profile(one, LAW.step_seconds(one)) for one in alone])
    assert model.step(alone[1]).value == pytest.approx(LAW.step_seconds(alone[1]), rel=0.05)


def test_nothing_profiled_is_an_error() -> None:
    with pytest.raises(UserError, match="profiled"):
        fit_steps(placements(), [])


def test_families_are_not_mixed() -> None:
    with pytest.raises(UserError, match="one family"):
        StepSpace((*placements("t4"), *placements("a100")))
