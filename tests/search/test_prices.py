"""Prices as columns are those of the deployments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mlcd.core.machines import Deployment
from mlcd.search.prices import prices_of
from search_worlds import offer

LARGE = replace(offer("c4.large"), extras_usd_per_hour=0.5, store_usd_per_hour=0.25, least_seconds=60.0)
FREE = replace(offer("own"), usd_per_hour=0.0)
SPACE = (Deployment(LARGE, 1), Deployment(LARGE, 3), Deployment(FREE, 2))


@pytest.mark.parametrize("seconds", [0.0, 30.0, 5000.0])
def test_a_rental_costs_what_the_deployment_says(seconds: float) -> None:
    found = prices_of(SPACE).rental_usd(np.full(3, seconds))
    assert found.tolist() == pytest.approx([each.rental_usd(seconds) for each in SPACE])


def test_what_can_be_paid_is_what_a_rental_costs() -> None:
    prices = prices_of(SPACE)
    seconds = prices.affordable_seconds(2.0)
    paid = [each.rental_usd(float(long)) for each, long in zip(SPACE[:2], seconds, strict=False)]
    assert paid == pytest.approx([2.0, 2.0])
    assert seconds[2] == np.inf
    assert prices.affordable_seconds(0.01).tolist() == [0.0, 0.0, np.inf]


def test_some_rows_keep_their_prices() -> None:
    assert prices_of(SPACE).take(np.array([1])).usd_per_hour.tolist() == [SPACE[1].usd_per_hour]
