"""A workflow's next phase is searched where that pays, and what a search gained is seen under one condition."""

from __future__ import annotations

import pytest

from mlcd.adapt.changes import Conditions, Lesson, Replan
from mlcd.adapt.limits import Keep
from mlcd.adapt.phases import PhaseFacts, lesson_of, lost_to_search, next_phase, usd_per_sample
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Belief
from mlcd.core.trial import Measurement, Phases, Trial

HERE = Deployment(Offer("local", InstanceType("m", vcpus=1), usd_per_hour=3.6, max_nodes=4), 1)
SMALL, LARGE = Conditions(parameters=1e6, samples=1e4), Conditions(parameters=1e8, samples=1e4)


def done(conditions: Conditions, searched: bool = True, search_usd: float = 0.1) -> PhaseFacts:
    return PhaseFacts(conditions, searched, search_usd, usd_per_sample=1e-4)


def test_the_first_phase_is_searched() -> None:
    assert isinstance(next_phase([], SMALL, []), Replan)


def test_a_later_one_where_that_pays() -> None:
    assert isinstance(next_phase([done(SMALL)], LARGE, []), Replan)
    assert next_phase([done(SMALL, search_usd=1.0)], LARGE, []) == Keep()


def test_a_change_is_counted_from_the_phase_that_was_searched() -> None:
    """Many little changes make a large one."""
    between = Conditions(parameters=8e7, samples=1e4)
    assert isinstance(next_phase([done(SMALL), done(between, searched=False)], LARGE, []), Replan)


def test_a_larger_model_costs_more_everywhere_and_that_teaches_nothing_about_searching() -> None:
    lesson = lesson_of(SMALL, LARGE, staying_usd=100.0, chosen_usd=80.0)
    assert lesson is not None
    assert lesson.gain == pytest.approx(0.2)
    assert isinstance(next_phase([done(SMALL), done(LARGE)], SMALL, [lesson]), Replan)


@pytest.mark.parametrize(("staying", "chosen"), [(0.0, 1.0), (1.0, 0.0), (1.0, 1.5)])
def test_what_is_not_known_and_what_was_for_the_limits_sake_teach_nothing(staying: float, chosen: float) -> None:
    assert lesson_of(SMALL, LARGE, staying, chosen) is None


def test_a_search_that_found_nothing_better_is_a_lesson() -> None:
    assert lesson_of(SMALL, Conditions(parameters=1e6), 1.0, 1.0) == Lesson(0.0, 0.0)


def test_what_is_measured_goes_before_what_is_believed() -> None:
    seen = Trial(HERE, Measurement(10.0, 9.0, 11.0), 1.0, 1.0)
    believed = Belief(HERE, 20.0, 10.0, 30.0)
    assert usd_per_sample(HERE, [seen], [believed]) == pytest.approx(0.001 / 10)
    assert usd_per_sample(HERE, [], [believed]) == pytest.approx(0.001 / 20)
    assert usd_per_sample(HERE, []) == 0.0


def test_what_probes_have_trained_is_not_lost() -> None:
    tried = Trial(HERE, Measurement(1.0, 1.0, 1.0), 10.0, 1.0, Phases(start=4.0, measuring=6.0))
    assert lost_to_search([tried], carried=True).usd == pytest.approx(0.4)
    assert lost_to_search([tried], carried=False).usd == pytest.approx(1.0)
