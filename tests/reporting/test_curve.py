"""Time and cost of a job over all its deployments."""

from __future__ import annotations

from dataclasses import replace

import pytest

import stories
from mlcd.core.progress import Usage
from mlcd.errors import UserError
from mlcd.reporting.curve import curve_of, read_price


def test_the_curve_has_a_front_and_a_knee_on_it() -> None:
    curve = curve_of(stories.story())
    assert len(curve.points) > len(curve.front) >= 1
    assert curve.knee in curve.front
    assert all(
        not (other.seconds <= point.seconds and other.usd < point.usd)
        for point in curve.front
        for other in curve.points
    )


def test_another_price_model_changes_the_money_and_not_the_time() -> None:
    own, other = curve_of(stories.story()), curve_of(stories.story(), read_price("vcpu-gib:0.03,0.004"))
    assert [point.seconds for point in own.points] == [point.seconds for point in other.points]
    assert [point.usd for point in own.points] != [point.usd for point in other.points]


def test_another_price_model_charges_for_the_memory_that_a_batch_was_seen_to_need() -> None:
    story, price = stories.story(), read_price("vcpu-gib:0.0,1.0")
    trial = next(each for each in story.view.trials if each.measurement is not None)
    assert trial.measurement is not None
    seen = replace(trial, outcome=replace(trial.measurement, usage=Usage(peak_memory_gib=2.0)))
    points = curve_of(replace(story, view=replace(story.view, trials=(seen,))), price).points
    (point,) = [each for each in points if each.deployment == trial.deployment]
    assert point.usd == pytest.approx(trial.deployment.nodes * 2.5 * point.seconds / 3600.0)


@pytest.mark.parametrize("text", ["", "free", "second:x", "vcpu-gib:0.1", "instance:3"])
def test_an_unknown_price_model_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="price model"):
        read_price(text)
