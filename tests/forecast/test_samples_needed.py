from __future__ import annotations

import pytest

from mlcd.forecast.samples_needed import NoiseKnown, OtherNoise, at_one_batch, samples_needed, universal_growth
from mlcd.forecast.statistical import Work


def values(batches: tuple[int, ...], known: list[Work], whole: float | None = None) -> dict[int, float]:
    return {batch: each.value for batch, each in samples_needed(batches, known, NoiseKnown(whole)).items()}


def test_one_training_and_its_noise_tell_of_other_batch_sizes() -> None:
    assert values((32, 96), [Work(32, 1000.0)], whole=32.0) == {32: 1000.0, 96: 2000.0}
    assert values((32,), [Work(32, 1000.0), Work(32, 1400.0)]) == {32: 1200.0}


def test_two_batch_sizes_tell_by_themselves_whatever_the_noise() -> None:
    known = [Work(32, 1000.0), Work(96, 1400.0)]
    assert values((64,), known, whole=1.0)[64] == pytest.approx(1200.0, rel=0.01)


def test_without_a_whole_trainings_noise_the_batch_sizes_on_offer_tell() -> None:
    """A noise at the beginning of 72 samples would make 4,096 need 20 times the samples: the recorded cifar10 needs 1.65."""
    needed = samples_needed((128, 4096), [Work(128, 1000.0)], NoiseKnown(first=72.5))
    assert (needed[128].value, needed[128].log_spread) == (1000.0, 0.0)
    assert 1000.0 < needed[4096].value < 2000.0
    assert needed[4096].low < 1650.0 < needed[4096].high
    grows = NoiseKnown(first=72.5, others=(OtherNoise(noise_scale=400.0, first_noise=100.0),))
    assert needed[4096].value < samples_needed((128, 4096), [Work(128, 1000.0)], grows)[4096].value


def test_the_further_from_what_was_trained_the_less_is_known() -> None:
    for noise in (NoiseKnown(), NoiseKnown(whole=1000.0)):
        needed = samples_needed((16, 32, 64, 512), [Work(32, 1000.0)], noise)
        assert needed[32].log_spread == 0.0
        assert 0.0 < needed[64].log_spread < needed[512].log_spread
        assert needed[16].value < 1000.0
    several = samples_needed((32, 96, 512), [Work(32, 1000.0), Work(96, 1400.0)], NoiseKnown())
    assert 0.0 < several[32].log_spread < several[512].log_spread


def test_nothing_known_is_nothing() -> None:
    assert samples_needed((32,), [], NoiseKnown(whole=100.0)) == {}
    assert at_one_batch([], 100.0) is None


def test_stretches_at_several_batch_sizes_count_as_one() -> None:
    stretches = [Work(32, 1000.0), Work(96, 1000.0)]
    assert at_one_batch(stretches, 32.0) == Work(96, 3000.0)
    assert at_one_batch(stretches, None) == Work(96, 2000.0)


def test_a_first_noise_that_no_job_can_have_is_passed_over() -> None:
    others = [OtherNoise(noise_scale=4000, first_noise=100)]
    absurd = universal_growth(32, 1024, 1024, 0.3, others)
    assert 1.0 < absurd.value < 2.0
    assert absurd.low < 1.05


def test_the_first_noise_moves_what_a_larger_batch_is_expected_to_need() -> None:
    others = [OtherNoise(noise_scale=4000, first_noise=100)]
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
