from __future__ import annotations

import numpy as np
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


def test_what_the_law_misses_is_lent_to_neighbours() -> None:
    odd = {one: LAW.step_seconds(one) * (1.2 if one.nodes >= 8 else 1.0) for one in placements()}
    seen = [one for one in placements() if one.batch in (256, 1024, 4096)]
    model = fit_steps(placements(), [Profile(one, odd[one]) for one in seen])
    errors = [abs(model.step(one).value / odd[one] - 1) for one in placements() if one not in seen]
    law = [abs(model.law().step_seconds(one) / odd[one] - 1) for one in placements() if one not in seen]
    assert sum(errors) < 0.7 * sum(law)


def test_profiles_that_no_law_explains_make_intervals_wider() -> None:
    noise = np.random.default_rng(0)
    wild = {one: LAW.step_seconds(one) * float(np.exp(noise.normal(0, 0.3))) for one in placements()}
    seen = placements()[::4]
    calm = fit_steps(placements(), [Profile(one, LAW.step_seconds(one)) for one in seen])
    torn = fit_steps(placements(), [Profile(one, wild[one]) for one in seen])
    other = placements()[1]
    assert torn.step(other).log_spread > 1.5 * calm.step(other).log_spread
