"""How often losses are expected, by the kind of machine and by what the job has seen, and what is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.progress import Saving
from mlcd.forecast.checkpoint_interval import expected_losses, interval_in_words

HOUR, DAY = 3600.0, 86400.0


def deployment(nodes: int = 1, **offer: object) -> Deployment:
    return Deployment(Offer("cloud", InstanceType("machine"), 1.0, 16, **offer), nodes)  # type: ignore[arg-type]


def test_nodes_on_demand_fail_seldom_and_many_of_them_more_often() -> None:
    one, eight = (expected_losses(deployment(nodes)).mean_seconds for nodes in (1, 8))
    assert one == pytest.approx(1000 / 6.5 * DAY)
    assert eight == pytest.approx(one / 8)


def test_spot_machines_are_taken_back_all_at_once_as_often_as_their_offer_says() -> None:
    one, eight = (expected_losses(deployment(nodes, spot=True, losses_per_hour=0.05)).mean_seconds for nodes in (1, 8))
    assert one == pytest.approx(20 * HOUR, rel=0.02)
    assert eight == pytest.approx(one, rel=0.05)


def test_a_server_of_another_type_that_is_taken_back_throws_all_back() -> None:
    steady = deployment(4)
    beside = replace(steady, servers=1, server_offer=replace(steady.offer, losses_per_hour=0.05))
    assert expected_losses(beside).mean_seconds == pytest.approx(20 * HOUR, rel=0.05)


def test_functions_all_come_to_their_end_in_each_of_their_lives() -> None:
    four = expected_losses(deployment(4, kind="function", lifetime_seconds=900.0)).mean_seconds
    assert four == pytest.approx(900.0, rel=0.01)


def test_what_the_job_has_seen_outweighs_what_was_expected() -> None:
    seen = expected_losses(deployment(spot=True, losses_per_hour=0.05), seen=9, in_seconds=10 * HOUR)
    assert seen.mean_seconds == pytest.approx(3 * HOUR, rel=0.02)


def test_the_jobs_own_interval_is_told_as_such() -> None:
    losses = expected_losses(deployment())
    assert interval_in_words(losses, 60.0, Saving(60.0, 1.0)) == "every 1m 00s, as the job says"


def test_the_interval_in_use_is_told_with_what_it_follows_from() -> None:
    losses = expected_losses(deployment(2, spot=True, losses_per_hour=0.05), seen=1, in_seconds=HOUR)
    told = interval_in_words(losses, None, Saving(379.5, 2.0, 36_000.0))
    assert told == ("every 6m 20s, as a save takes 2 s and a loss is expected every 10h 00m (2 spot machines, 1 seen)")


def test_before_a_save_was_seen_an_example_is_told() -> None:
    told = interval_in_words(expected_losses(deployment(lifetime_seconds=900.0)), None, None)
    assert told.startswith("where mlcd.checkpoint_due() is asked, every 42.4s if a save takes 1 s")
    assert "functions live for 15m 00s" in told
