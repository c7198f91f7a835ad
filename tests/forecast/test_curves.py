from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.errors import UserError
from mlcd.forecast.curves import (
    knee,
    pareto_front,
    per_instance,
    per_second,
    per_vcpu_and_gib,
)

OFFER = Offer("local", InstanceType("m4", vcpus=4, memory_gib=16), usd_per_hour=0.4, max_nodes=64)


@dataclass(frozen=True)
class Point:
    seconds: float
    usd: float


def times(points: tuple[Point, ...]) -> list[float]:
    return [one.seconds for one in points]


def test_the_front_holds_what_nothing_beats() -> None:
    assert times(pareto_front([Point(3, 1), Point(1, 5), Point(2, 2), Point(2, 3), Point(4, 1)])) == [1, 2, 3]


def test_the_knee_is_where_the_front_bends() -> None:
    front = pareto_front([Point(1, 10), Point(2, 3), Point(3, 2.6), Point(6, 2.2), Point(10, 2)])
    assert knee(front).seconds == 2


def test_a_front_of_one_is_its_own_knee() -> None:
    assert knee((Point(1, 1),)).seconds == 1


def test_a_front_that_bulges_outward_takes_the_least_product() -> None:
    assert knee((Point(1, 10), Point(8, 9), Point(10, 1))).seconds in (1, 10)


def test_no_front_has_no_knee() -> None:
    with pytest.raises(UserError):
        knee(())


def test_prices_by_instance_second_and_part() -> None:
    two = Deployment(OFFER, 2)
    assert per_instance()(two, 1800) == pytest.approx(0.4)
    assert per_second(least_seconds=60)(two, 10.2) == pytest.approx(0.8 * 60 / 3600)
    assert per_second(least_seconds=60)(two, 100.2) == pytest.approx(0.8 * 101 / 3600)
    assert per_vcpu_and_gib(0.03, 0.004)(two, 3600) == pytest.approx(2 * (0.12 + 0.064))
    assert per_vcpu_and_gib(0.03, 0.004)(replace(two, memory_gib=4.0), 3600) == pytest.approx(2 * (0.12 + 0.016))
