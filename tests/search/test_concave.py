"""The concave prior: what measured scale-outs say about the others of their line."""

from __future__ import annotations

import numpy as np
import pytest

from mlcd.core.study import Study
from mlcd.forecast.training_forecast import UNSEEN_SHARE, Z95
from mlcd.search.concave import past_the_peak, speed_bounds
from mlcd.search.table import study_view
from search_worlds import deployment, measured, study_of

C5 = tuple(deployment("c5", nodes) for nodes in range(1, 9))
WIDTH = float(np.exp(Z95 * UNSEEN_SHARE))  # of the interval of a measurement without an error of its own


def beyond_the_peak(study: Study) -> list[str]:
    return [study.space[row].key for row in np.flatnonzero(past_the_peak(study_view(study)))]


def test_one_node_bounds_all_by_linear_speed_up() -> None:
    bounds = speed_bounds(study_view(study_of(measured(C5[0], 10.0), space=C5)))
    assert bounds.high == pytest.approx(np.arange(1, 9) * 10.0 * WIDTH)
    assert bounds.low == pytest.approx([10.0 / WIDTH] + [0.0] * 7)


def test_between_two_points_the_speed_is_above_their_chord() -> None:
    bounds = speed_bounds(study_view(study_of(measured(C5[0], 10.0), measured(C5[4], 30.0), space=C5)))
    assert bounds.low[2] == pytest.approx(20.0 / WIDTH)
    assert bounds.high[2] == pytest.approx(30.0 * WIDTH)  # linear speed-up of one node


def test_beyond_two_points_of_declining_speed_it_declines_further() -> None:
    bounds = speed_bounds(study_view(study_of(measured(C5[2], 40.0), measured(C5[4], 30.0), space=C5)))
    assert bounds.high[7] < 30.0
    assert (np.diff(bounds.high[4:]) < 0).all()


def test_lines_that_were_not_measured_are_not_bounded() -> None:
    space = (*C5, deployment("p3", 1), deployment("c5", 1, 64))
    bounds = speed_bounds(study_view(study_of(measured(C5[0], 10.0), space=space)))
    assert np.isinf(bounds.high[8:]).all()


def test_the_same_machine_at_two_prices_is_one_point() -> None:
    space = (C5[0], deployment("c5", 1, usd_per_hour=2.0), C5[1])
    study = study_of(measured(space[0], 10.0), measured(space[1], 12.0), space=space)
    assert speed_bounds(study_view(study)).high[2] == pytest.approx(24.0 * WIDTH)


def test_no_larger_scale_out_after_a_declining_pair() -> None:
    space = (*C5, deployment("p3", 8))
    study = study_of(measured(space[0], 10.0), measured(space[2], 20.0), measured(space[4], 18.0), space=space)
    assert beyond_the_peak(study) == ["6xc5", "7xc5", "8xc5"]


def test_a_decline_within_the_noise_is_none() -> None:
    study = study_of(measured(C5[0], 10.0, 0.02), measured(C5[1], 9.9, 0.02), space=C5)
    assert beyond_the_peak(study) == []


def test_batch_sizes_have_their_own_curves() -> None:
    space = tuple(deployment("c5", nodes, batch) for nodes in (1, 2, 4) for batch in (32, 64))
    study = study_of(measured(space[0], 10.0), measured(space[2], 5.0), space=space)
    assert beyond_the_peak(study) == ["4xc5/b32"]
