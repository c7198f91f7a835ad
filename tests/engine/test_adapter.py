"""What the policies know."""

from __future__ import annotations

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.run import Attempt, AttemptEnd
from mlcd.engine.adapter import lost_often, speeds_left

OFFER = Offer("local", InstanceType("m", vcpus=1), usd_per_hour=1.0, max_nodes=4)


def attempt(number: int, nodes: int, end: AttemptEnd | None, rate: float) -> Attempt:
    return Attempt(f"t{number}", number, Deployment(OFFER, nodes), 0.0, end=end, samples_per_second=rate)


def test_a_deployment_is_known_by_how_it_ran_when_it_was_left() -> None:
    moved, going = attempt(1, 2, AttemptEnd.MOVED, 40.0), attempt(2, 1, None, 90.0)
    speeds = speeds_left([moved, going])
    assert set(speeds) == {Deployment(OFFER, 2)}
    assert speeds[Deployment(OFFER, 2)].samples_per_second == 40.0
    again = speeds_left([moved, attempt(3, 2, AttemptEnd.MOVED, 70.0)])
    assert again[Deployment(OFFER, 2)].samples_per_second == 70.0
    assert speeds_left([attempt(1, 2, AttemptEnd.MOVED, 0.0)]) == {}


def test_where_nodes_were_lost_twice_the_training_does_not_go_back() -> None:
    once = [attempt(1, 2, AttemptEnd.LOST, 40.0), attempt(2, 4, AttemptEnd.LOST, 40.0)]
    assert lost_often(once) == set()
    assert lost_often([*once, attempt(3, 2, AttemptEnd.LOST, 40.0)]) == {Deployment(OFFER, 2)}
