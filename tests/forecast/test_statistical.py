from __future__ import annotations

from math import inf

import numpy as np
import pytest

from mlcd.errors import UserError
from mlcd.forecast.statistical import Form, Work, fit_form, fit_samples, leave_one_out_error

BATCHES = (32, 64, 128, 256, 512, 1024)


def grown(noise_scale: float) -> list[Work]:
    return [Work(batch, 1e6 * (1 + batch / noise_scale)) for batch in BATCHES]


def scavenged(theta: float) -> list[Work]:
    return [Work(batch, 5e4 * (10 + theta / batch**0.5)) for batch in BATCHES]


def test_a_noise_scale_is_recovered() -> None:
    model = fit_samples(grown(700.0))
    assert model.form is Form.NOISE_SCALE
    assert model.noise_scale == pytest.approx(700.0, rel=1e-6)
    assert model.samples(2048).value == pytest.approx(1e6 * (1 + 2048 / 700), rel=1e-6)


def test_scavengers_form_is_chosen_where_larger_batches_need_fewer_epochs() -> None:
    model = fit_samples(scavenged(theta=60.0))
    assert model.form is Form.SCAVENGER
    assert (model.fixed, model.varying) == (pytest.approx(5e5), pytest.approx(3e6))
    assert model.noise_scale == inf


def test_two_batch_sizes_are_enough_for_the_rest() -> None:
    work = grown(700.0)
    model = fit_samples([work[0], work[-1]])
    for one in work:
        assert model.samples(one.batch).value == pytest.approx(one.samples, rel=1e-9)


def test_one_batch_size_gives_a_wide_interval_instead_of_an_error() -> None:
    expected = fit_samples([Work(64, 1e6)]).samples(1024)
    assert expected.value == 1e6
    assert expected.high / expected.low > 5


def test_no_batch_size_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(UserError, match="Train once"):
        fit_samples([])


def test_samples_never_shrink_below_what_growth_allows() -> None:
    falling = [Work(32, 2e6), Work(64, 1.9e6), Work(128, 1.8e6)]
    assert fit_form(Form.NOISE_SCALE, falling).varying == 0.0


def test_leaving_one_out_tells_the_right_form_from_the_wrong() -> None:
    work = grown(700.0)
    assert leave_one_out_error(Form.NOISE_SCALE, work) < 1e-6 < leave_one_out_error(Form.SCAVENGER, work)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    held = []
    for seed in range(200):
        noise = np.random.default_rng(seed).normal(0.0, 0.03, len(BATCHES))
        seen = [Work(one.batch, one.samples * np.exp(e)) for one, e in zip(grown(700.0), noise, strict=True)]
        expected = fit_form(Form.NOISE_SCALE, seen).samples(384)
        held.append(expected.low <= 1e6 * (1 + 384 / 700) <= expected.high)
    assert np.mean(held) >= 0.93


def test_two_batch_sizes_that_fall_follow_the_form_that_can_fall() -> None:
    model = fit_samples([Work(100, 1000.0), Work(400, 700.0)])
    assert model.form is Form.SCAVENGER
    assert model.samples(100).value == pytest.approx(1000.0)
    assert model.samples(400).value == pytest.approx(700.0)
    assert fit_samples([Work(100, 700.0), Work(400, 1000.0)]).form is Form.NOISE_SCALE
