from __future__ import annotations

import pytest

from forecast.steps import LAW, placements
from mlcd.errors import UserError
from mlcd.forecast.step_fit import Profile, StepSpace, fit_steps


def test_parameters_of_a_known_job_are_recovered() -> None:
    law = fit_steps(placements(), [Profile(one, LAW.step_seconds(one)) for one in placements()]).law()
    assert law.alpha_seconds == pytest.approx(LAW.alpha_seconds, rel=0.1)
    assert law.beta_seconds == pytest.approx(LAW.beta_seconds, rel=0.05)
    assert law.sync_ratio((4, 2)) == pytest.approx(LAW.sync_ratio((4, 2)), abs=0.15)


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
