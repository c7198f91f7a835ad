"""Time and cost over workers × batch size: the Pareto front, and the knee of that front.

    T   training time, seconds      C   cost, dollars:  C = T·K·p (equation 5), or by another price model
Knee: Kneedle (Satopää et al. 2011). Both axes are stretched to 0…1; the knee is the point farthest below
the chord from the fastest to the cheapest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil
from typing import Protocol, TypeVar

from mlcd.core.machines import Deployment
from mlcd.errors import UserError

Price = Callable[[Deployment, float], float]  # deployment, seconds → dollars


class Costed(Protocol):
    """Anything that takes time and money."""

    @property
    def seconds(self) -> float:
        """How long."""

    @property
    def usd(self) -> float:
        """For how much."""


C = TypeVar("C", bound=Costed)


def pareto_front(points: Iterable[C]) -> tuple[C, ...]:
    """The points that no other beats in both time and cost, fastest first."""
    front: list[C] = []
    for point in sorted(points, key=lambda point: (point.seconds, point.usd)):
        if not front or point.usd < front[-1].usd:
            front.append(point)
    return tuple(front)


def knee(front: Sequence[C]) -> C:
    """Where a front bends most: going faster starts to cost much, going cheaper to take long."""
    if not front:
        raise UserError("A front without points has no knee.")
    times, costs = [point.seconds for point in front], [point.usd for point in front]
    if min(times) == max(times) or min(costs) == max(costs):
        return front[0]
    # On a falling curve from (0, 1) to (1, 0) the chord is x + y = 1.
    below = [1.0 - _stretched(time, times) - _stretched(cost, costs) for time, cost in zip(times, costs, strict=True)]
    if max(below) <= 0:  # the front bulges the other way: no bend, so the middle road
        return min(front, key=lambda point: point.seconds * point.usd)
    return front[below.index(max(below))]


def per_instance() -> Price:
    """Every node at its hourly price, to the second."""
    return lambda deployment, seconds: deployment.usd(seconds)


def per_second(least_seconds: float = 60.0) -> Price:
    """Every node by the whole second, and for no less than a minimum."""
    return lambda deployment, seconds: deployment.usd(max(float(ceil(seconds)), least_seconds))


def per_vcpu_and_gib(
    usd_per_vcpu_hour: float,
    usd_per_gib_hour: float,
) -> Price:
    """Machines cut to measure: so much for each vCPU and each GiB of memory that every node is given.

    Scavenger's figure 12 gives a node just the memory that its batch needs: see forecast.memory.
    """

    def price(deployment: Deployment, seconds: float) -> float:
        instance = deployment.offer.instance
        hourly = instance.vcpus * usd_per_vcpu_hour + deployment.node_memory_gib * usd_per_gib_hour
        return deployment.nodes * hourly * seconds / 3600.0

    return price


def _stretched(value: float, values: Sequence[float]) -> float:
    low, high = min(values), max(values)
    return (value - low) / (high - low)
