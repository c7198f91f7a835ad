from __future__ import annotations

import pytest

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.errors import UserError
from mlcd.forecast.curves import (
    CurvePoint,
    knee,
    pareto_front,
    per_instance,
    per_second,
    per_vcpu_and_gib,
    time_cost_curve,
)
from mlcd.forecast.estimate import Estimate

OFFER = Offer("local", InstanceType("m4", vcpus=4, memory_gib=16), usd_per_hour=0.4, max_nodes=64)


def point(seconds: float, usd: float) -> CurvePoint:
    return CurvePoint(Deployment(OFFER, 1), seconds, usd, seconds, seconds, usd, usd)


def times(points: tuple[CurvePoint, ...]) -> list[float]:
    return [one.seconds for one in points]


def test_a_curve_is_sorted_by_time_and_leaves_out_what_is_not_known() -> None:
    space = [Deployment(OFFER, nodes) for nodes in (1, 2, 4)]
    curve = time_cost_curve(
        space,
        lambda one: Estimate(7200 / one.nodes, 3600 / one.nodes, 9000 / one.nodes) if one.nodes < 4 else None,
    )
    assert [one.deployment.nodes for one in curve] == [2, 1]
    assert curve[1].usd == pytest.approx(0.8)
    assert (curve[1].low_usd, curve[1].high_usd) == (pytest.approx(0.4), pytest.approx(1.0))


def test_the_front_holds_what_nothing_beats() -> None:
    assert times(pareto_front([point(3, 1), point(1, 5), point(2, 2), point(2, 3), point(4, 1)])) == [1, 2, 3]


def test_the_knee_is_where_the_front_bends() -> None:
    front = pareto_front([point(1, 10), point(2, 3), point(3, 2.6), point(6, 2.2), point(10, 2)])
    assert knee(front).seconds == 2


def test_a_front_of_one_is_its_own_knee() -> None:
    assert knee((point(1, 1),)).seconds == 1


def test_a_front_that_bulges_outward_takes_the_least_product() -> None:
    assert knee((point(1, 10), point(8, 9), point(10, 1))).seconds in (1, 10)


def test_no_front_has_no_knee() -> None:
    with pytest.raises(UserError):
        knee(())


def test_prices_by_instance_second_and_part() -> None:
    two = Deployment(OFFER, 2)
    assert per_instance()(two, 1800) == pytest.approx(0.4)
    assert per_second(least_seconds=60)(two, 10.2) == pytest.approx(0.8 * 60 / 3600)
    assert per_second(least_seconds=60)(two, 100.2) == pytest.approx(0.8 * 101 / 3600)
    assert per_vcpu_and_gib(0.03, 0.004)(two, 3600) == pytest.approx(2 * (0.12 + 0.064))
    assert per_vcpu_and_gib(0.03, 0.004, lambda _: 4.0)(two, 3600) == pytest.approx(2 * (0.12 + 0.016))
