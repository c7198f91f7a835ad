from __future__ import annotations

from math import inf, log

import pytest

from mlcd.forecast.samples_needed import (
    OtherNoise,
    at_one_batch,
    samples_by_batch,
    spread_by_batch,
    universal_growth,
    universal_noise_scale,
)
from mlcd.forecast.statistical import Work


def test_one_training_and_the_noise_tell_of_other_batch_sizes() -> None:
    found = samples_by_batch((32, 96), [Work(32, 1000.0)], noise_scale=32.0)
    assert found == {32: 1000.0, 96: 2000.0}
    assert samples_by_batch((32, 96), [Work(32, 1000.0)], None) == {32: 1000.0, 96: 1000.0}


def test_two_batch_sizes_tell_by_themselves_whatever_the_noise() -> None:
    known = [Work(32, 1000.0), Work(96, 1400.0)]
    assert samples_by_batch((64,), known, noise_scale=1.0)[64] == pytest.approx(1200.0, rel=0.01)


def test_only_trainings_at_several_batch_sizes_tell_how_far_off_the_samples_may_be() -> None:
    assert spread_by_batch((32, 96), [Work(32, 1000.0)]) == {}
    spread = spread_by_batch((32, 96, 512), [Work(32, 1000.0), Work(96, 1400.0)])
    assert 0.0 < spread[32] < spread[512]


def test_nothing_known_is_nothing() -> None:
    assert samples_by_batch((32,), [], 100.0) == {}
    assert at_one_batch([], 100.0) is None


def test_stretches_at_several_batch_sizes_count_as_one() -> None:
    stretches = [Work(32, 1000.0), Work(96, 1000.0)]
    assert at_one_batch(stretches, 32.0) == Work(96, 3000.0)
    assert at_one_batch(stretches, None) == Work(96, 2000.0)


def test_the_first_noise_scales_what_other_jobs_had() -> None:
    others = [OtherNoise(noise_scale=4000, base_batch=32, first_noise=100)]
    assert universal_noise_scale(10.0, 32, others) == pytest.approx(400)


def test_without_noise_the_smallest_batch_scales() -> None:
    others = [OtherNoise(3200, 32, None), OtherNoise(12800, 32, None)]
    assert log(universal_noise_scale(10.0, 64, others)) == pytest.approx(log(64 * 200))
    assert universal_noise_scale(None, 64, []) == inf


def test_a_first_noise_that_no_job_can_have_is_passed_over() -> None:
    others = [OtherNoise(noise_scale=4000, base_batch=32, first_noise=100)]
    absurd = universal_growth(32, 1024, 1024, 0.3, others)
    assert 1.0 < absurd.value < 2.0
    assert absurd.low < 1.05


def test_the_first_noise_moves_what_a_larger_batch_is_expected_to_need() -> None:
    others = [OtherNoise(noise_scale=4000, base_batch=32, first_noise=100)]
    quiet, loud = (universal_growth(32, 1024, 1024, first, others).value for first in (20.0, 1000.0))
    assert quiet > loud > 1.0


def test_the_smallest_batch_needs_what_it_needs() -> None:
    same = universal_growth(32, 32, 1024, None, [])
    assert same.value == pytest.approx(1.0)
    assert same.log_spread < 0.01


def test_what_an_untrained_job_needs_at_its_largest_batch_is_known_roughly() -> None:
    """Held by the interval: half as much, as where the learning rate stays, and three times as much."""
    most = universal_growth(32, 1024, 1024, None, [])
    assert most.low < 0.6
    assert most.high > 3.0
