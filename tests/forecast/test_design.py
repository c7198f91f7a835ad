from __future__ import annotations

import numpy as np

from forecast.steps import LAW, placements
from mlcd.forecast.design import choose_profiles, profile_partly
from mlcd.forecast.parallel import Placement
from mlcd.forecast.step_fit import StepSpace


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


def test_a_device_is_seen_by_itself_with_little_and_with_much() -> None:
    asked: list[Placement] = []

    def profile(placement: Placement) -> float:
        asked.append(placement)
        return LAW.step_seconds(placement)

    profile_partly(placements(), profile)
    alone = [one.micro_batch for one in asked if one.devices == 1]
    space = [one.micro_batch for one in placements() if one.devices == 1]
    assert {min(space), max(space)} <= set(alone)


def test_a_memory_cliff_is_foretold_from_six_profiles() -> None:
    """From half of what a device holds a sample takes half as long again; most batches are accumulated."""
    space = placements(limit=128.0)

    def seconds(placement: Placement) -> float:
        over = max(placement.micro_batch - 64.0, 0.0) / placement.micro_batch
        return LAW.step_seconds(placement) * (1.0 + 0.5 * over)

    model = profile_partly(space, seconds)
    errors = [abs(model.step(one).value / seconds(one) - 1) for one in space]
    assert np.mean(errors) < 0.06
    assert np.mean([model.step(one).low <= seconds(one) <= model.step(one).high for one in space]) >= 0.9


def test_a_type_that_was_profiled_as_often_as_allowed_is_left_alone() -> None:
    space = StepSpace(tuple(placements()))
    already = [one for one in placements() if one.batch == 1024 and one.nodes in (1, 4, 8)]
    assert choose_profiles(space, 3, already) == already
