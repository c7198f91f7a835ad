"""What may be tried next and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from mlcd.core.goal import Aim
from mlcd.search.candidates import affordable, first_of_each_type, goal_cost_of_probes, left_after_probe
from mlcd.search.limits import ProbeLimit
from mlcd.search.table import study_view
from search_worlds import deployment, measured, study_of

SPACE = tuple(
    deployment(name, nodes, batch, usd_per_hour=price)
    for name, price in (("dear", 10.0), ("cheap", 1.0))
    for nodes in (1, 2, 8)
    for batch in (16, 64, 256)
)
TRIAL = measured(SPACE[0], 100.0)


def test_columns_admit_what_the_room_admits() -> None:
    study = study_of(space=SPACE)
    room = ProbeLimit(seconds=800.0, usd=3.0)
    assert list(affordable(study_view(study), room)) == [room.admits(study, d) for d in SPACE]


@pytest.mark.parametrize("aim", list(Aim))
def test_a_probe_costs_what_it_adds_to_the_whole_job(aim: Aim) -> None:
    study = study_of(TRIAL, space=SPACE, aim=aim)
    cost = goal_cost_of_probes(study_view(study), TRIAL)
    expected = {Aim.FASTEST: study.probe_seconds(SPACE[2]) / 3600.0, Aim.CHEAPEST: study.probe_usd(SPACE[2])}
    assert np.all(cost > 0)
    if aim in expected:
        assert cost[2] == pytest.approx(expected[aim])


def test_what_is_left_after_a_probe_has_the_spent_taken_off() -> None:
    study = study_of(TRIAL, space=SPACE, deadline_hours=2.0)
    seconds, usd = left_after_probe(study_view(study))
    assert seconds[0] == pytest.approx(7200.0 - 600.0 - 600.0)
    assert np.all(np.isinf(usd))


def test_types_are_looked_at_cheapest_first_with_the_middle_batch() -> None:
    view = study_view(study_of(space=SPACE))
    first = first_of_each_type(view, view.open, most=5)
    assert first is not None
    assert first.key == "1xcheap/b64"
    view = study_view(study_of(measured(first, 1.0), TRIAL, space=SPACE))
    assert first_of_each_type(view, view.open, most=5) is None
