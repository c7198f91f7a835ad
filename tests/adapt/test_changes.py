"""A workflow looks for another deployment when that pays, and noise never makes it."""

from __future__ import annotations

from math import e

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mlcd.adapt.changes import (
    LEAST_CHANGE,
    PRIOR_GAIN,
    Conditions,
    Lesson,
    Replan,
    expected_gain,
    largest_change,
    reconsider,
)
from mlcd.adapt.limits import Keep

SMALL, LARGE = Conditions(batch_size=32), Conditions(batch_size=512)


def test_a_large_change_is_worth_a_search() -> None:
    decision = reconsider(SMALL, LARGE, rest=10.0, search=0.5)
    assert isinstance(decision, Replan)
    assert "batch size has changed 16.0 times" in decision.why


def test_a_search_that_costs_more_than_it_saves_is_not_made() -> None:
    assert reconsider(SMALL, LARGE, rest=1.0, search=0.5) == Keep()


@given(
    some.floats(1 / LEAST_CHANGE + 0.01, LEAST_CHANGE - 0.01),
    some.floats(0.0, 1e6),
    some.floats(0.0, 1e3),
)
def test_noise_never_triggers_it(factor: float, rest_usd: float, search_usd: float) -> None:
    now = Conditions(samples=1000.0 * factor)
    assert reconsider(Conditions(samples=1000.0), now, rest_usd, search_usd) == Keep()


def test_it_works_in_both_directions() -> None:
    there = largest_change(SMALL, LARGE)
    assert largest_change(LARGE, SMALL) == pytest.approx(there)


def test_what_is_not_known_has_not_changed() -> None:
    assert largest_change(Conditions(), LARGE) == ("", 0.0)


def test_the_largest_change_is_the_one_that_is_named() -> None:
    before = Conditions(batch_size=32, parameters=1e6, samples=1e4)
    now = Conditions(batch_size=64, parameters=e * 1e6, samples=1e4)
    assert largest_change(before, now) == ("size of the model", pytest.approx(1.0))


def test_searches_that_gained_nothing_make_the_next_less_likely() -> None:
    assert expected_gain(()) == PRIOR_GAIN
    poor, rich = [Lesson(2.0, 0.0)] * 5, [Lesson(2.0, 0.8)] * 5
    assert expected_gain(poor) < PRIOR_GAIN < expected_gain(rich)
    assert reconsider(SMALL, LARGE, 2.0, 0.3, poor) == Keep()
    assert isinstance(reconsider(SMALL, LARGE, 2.0, 0.3, rich), Replan)
