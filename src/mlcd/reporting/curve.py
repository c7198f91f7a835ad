"""Time and cost of a job over all its deployments, with the Pareto front and the knee."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlcd.core.view import JobStory
from mlcd.errors import UserError
from mlcd.forecast.curves import Price, knee, pareto_front, per_instance, per_second, per_vcpu_and_gib
from mlcd.forecast.memory import memory_need
from mlcd.reporting.training_estimates import TrainingEstimate, training_estimates


@dataclass(frozen=True)
class Curve:
    """What training would take everywhere, fastest first."""

    points: tuple[TrainingEstimate, ...]
    front: tuple[TrainingEstimate, ...]  # no other is better in both
    knee: TrainingEstimate | None  # where going faster starts to cost much


def curve_of(story: JobStory, price: Price | None = None) -> Curve:
    """The job's curve, by the instance's own price or another price model.

    Where another one charges for memory, a node is given what its batch was seen to need.
    """
    points = list(training_estimates(story))
    if price is not None:
        need = memory_need(story.view.trials)
        points = [replace(one, usd=price(need.cut(one.deployment), one.seconds)) for one in points]
    points.sort(key=lambda one: (one.seconds, one.usd))
    front = pareto_front(points)
    return Curve(tuple(points), front, knee(front) if front else None)


def read_price(text: str) -> Price:
    """The price model meant by 'instance', 'second:60' (at least 60 s) or 'vcpu-gib:0.03,0.004' (dollars an hour)."""
    model, _, numbers = text.partition(":")
    try:
        values = [float(number) for number in numbers.split(",")] if numbers else []
        if model == "instance" and not values:
            return per_instance()
        if model == "second" and len(values) <= 1:
            return per_second(*values)
        if model == "vcpu-gib" and len(values) == 2:
            return per_vcpu_and_gib(values[0], values[1])
    except ValueError:
        pass
    raise UserError(
        f"'{text}' is no price model.", "Write instance, second:60, or vcpu-gib:0.03,0.004 (dollars an hour)."
    )
