from __future__ import annotations

import pytest

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.trial import Failure, FailureKind, Measurement, Trial
from mlcd.forecast.profiles import family_of, laws_of, placement_of, profiles_of

CPU = Offer("local", InstanceType("c", vcpus=4), 1.0, 8)
GPU = Offer("local", InstanceType("g4", gpus=4, gpu_model="T4"), 1.0, 8)


def trial(deployment: Deployment, rate: float, steps: float = 0.0, samples: float = 0.0) -> Trial:
    return Trial(deployment, Measurement(rate, rate, rate, steps, samples), 10.0, 0.1)


def test_instance_types_with_the_same_gpu_are_a_family() -> None:
    assert family_of(GPU.instance) == family_of(InstanceType("g1", gpus=1, gpu_model="T4")) == "T4"
    assert family_of(InstanceType("t4x4", gpus=4)) == "t4"
    assert family_of(CPU.instance) == "c"


def test_a_batch_in_passes_is_cut_so() -> None:
    placed = placement_of(Deployment(GPU, 2, 256, accumulation=4), 256)
    assert (placed.devices, placed.micro_batches, placed.micro_batch) == (8, 4, 8)


def test_a_programs_own_batch_is_what_it_was_seen_to_take() -> None:
    (profile,) = profiles_of([trial(Deployment(CPU, 1), 640.0, steps=100, samples=3200)])
    assert profile.placement.batch == 32
    assert profile.step_seconds == pytest.approx(0.05)
    assert profiles_of([trial(Deployment(CPU, 1), 640.0)]) == []


def test_a_law_fits_what_was_measured_and_failures_tell_nothing() -> None:
    seen = [
        trial(Deployment(CPU, nodes, batch), batch / (0.02 + 1e-4 * batch / nodes + 0.01 * (nodes > 1)))
        for nodes in (1, 2, 4)
        for batch in (64, 512)
    ]
    failed = Trial(Deployment(CPU, 8, 64), Failure(FailureKind.CRASHED), 1.0, 0.1)
    laws = laws_of([*seen, failed])
    assert set(laws) == {"c"}
    expected = laws["c"].step_seconds(placement_of(Deployment(CPU, 1, 512), 512))
    assert expected == pytest.approx(0.02 + 1e-4 * 512, rel=0.1)
