import math
import random

import pytest

from mlcd.worker.noise import (
    GRAD_NOISE,
    NOISE_GROUPS,
    NOISE_SCALE,
    NOISE_STABLE,
    Noise,
    NoiseMeter,
    adascale_gain,
)
from worker.sessions import Inside

DIMENSIONS = 400


def silent(noise: Noise) -> None:
    pass


def feed(meter: NoiseMeter, observations: int, signal: float, variance: float, groups: int, batch: int) -> None:
    """Gradients with a known |G|² and tr(Σ): a fixed mean and normal noise around it, in as many dimensions."""
    chance = random.Random(1)
    mean, spread = math.sqrt(signal / DIMENSIONS), math.sqrt(variance / DIMENSIONS / batch)
    for _ in range(observations):
        gradients = [[chance.gauss(mean, spread) for _ in range(DIMENSIONS)] for _ in range(groups)]
        average = [sum(column) / groups for column in zip(*gradients, strict=True)]
        squares = [sum(value * value for value in gradient) for gradient in gradients]
        meter.observe(squares, sum(value * value for value in average), batch, groups * batch)


@pytest.mark.parametrize(("groups", "batch"), [(2, 32), (4, 8)])
def test_noise_whose_truth_is_known_is_found(groups: int, batch: int) -> None:
    meter = NoiseMeter(silent)
    feed(meter, 100, signal=2.0, variance=120.0, groups=groups, batch=batch)
    noise = meter.noise
    assert noise is not None
    assert noise.noise_scale == pytest.approx(60.0, rel=0.1)
    local, total = 2.0 + 120.0 / batch, 2.0 + 120.0 / (groups * batch)
    assert noise.gamma == pytest.approx(local / total, rel=0.05)
    assert noise.normalised == pytest.approx(noise.gamma / groups)
    ratio = 60.0 / (groups * batch)
    assert noise.normalised == pytest.approx((1 / groups + ratio) / (1 + ratio), rel=0.05)
    assert noise.stable


def test_without_noise_gamma_is_one_and_with_nothing_else_it_is_the_number_of_groups() -> None:
    still, wild = NoiseMeter(silent), NoiseMeter(silent)
    for _ in range(30):
        still.observe([3.0, 3.0, 3.0, 3.0], 3.0, 8, 32)
        wild.observe([4.0, 4.0, 4.0, 4.0], 1.0, 8, 32)
    assert still.noise is not None
    assert (still.noise.gamma, still.noise.noise_scale) == (1.0, 0.0)
    assert wild.noise is not None
    assert (wild.noise.gamma, wild.noise.normalised, wild.noise.noise_scale) == (4.0, 1.0, None)


def test_noise_that_still_rises_is_not_stable_and_settles_later() -> None:
    meter = NoiseMeter(silent)
    stable = []
    for step in range(120):
        gamma = 1 + min(step, 60) / 40
        scale = 0.97**step  # the gradients themselves go on shrinking
        meter.observe([gamma * scale], scale, 16, 64)
        assert meter.noise is not None
        stable.append(meter.noise.stable)
    assert not any(stable[:40])
    assert all(stable[80:])


def test_noise_that_moves_away_again_is_no_longer_stable() -> None:
    meter = NoiseMeter(silent)
    for gamma in [1.2] * 30 + [2.4] * 12:
        meter.observe([gamma], 1.0, 16, 64)
    assert meter.noise is not None
    assert not meter.noise.stable


def test_the_memory_fades() -> None:
    meter = NoiseMeter(silent)
    for gamma in [1.2] * 100 + [2.4] * 100:
        meter.observe([gamma], 1.0, 16, 64)
    assert meter.noise is not None
    assert meter.noise.gamma == pytest.approx(2.4, rel=0.02)


@pytest.mark.parametrize(
    ("local", "total", "batch"),
    [
        ([math.inf], 1.0, 8),
        ([1.0], math.nan, 8),
        ([], 1.0, 8),
        ([0.0], 0.0, 8),
        ([1.0], 1.0, 32),
        ([1.0], 1.0, 0),
    ],
)
def test_what_says_nothing_is_left_out(local: list[float], total: float, batch: int) -> None:
    meter = NoiseMeter(silent)
    meter.observe(local, total, batch, 32)
    assert meter.noise is None


def test_nothing_is_raised_into_the_program() -> None:
    NoiseMeter(silent).observe(["no number"], 1.0, 8, 32)  # type: ignore[list-item]


def test_a_parameter_server_feeds_the_meter_and_the_noise_is_reported(inside: Inside) -> None:
    session = inside()
    meter = NoiseMeter()
    for _ in range(30):
        meter.observe([5.0, 7.0, 6.0, 6.0], 3.0, local_batch=8, global_batch=32)
    assert session.metrics[GRAD_NOISE] == pytest.approx(0.5)
    assert session.metrics[NOISE_GROUPS] == 4
    assert session.metrics[NOISE_SCALE] == pytest.approx(16.0)
    assert session.metrics[NOISE_STABLE] == 1.0


def test_the_gain_of_adascale_is_that_of_its_paper() -> None:
    variance, signal, growth = 3.0, 0.5, 8.0
    noise_scale = variance * 32 / signal  # samples: the variance is that of batches of 32
    expected = (variance + signal) / (variance / growth + signal)
    assert adascale_gain(noise_scale, 32, 32 * growth) == pytest.approx(expected)
