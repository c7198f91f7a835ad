"""Whether a job or workflow that has changed is worth replanning. Pure.

What the best deployment depends on changes while a job trains and between the phases of a workflow: the batch size (dynamic
batching), the size of the model (architecture search), the amount of data (online learning). A change by the factor f is
expected to be worth

    share = gain × |ln f|          of what the rest of the work costs, at most MOST_SHARE

in whatever the goal counts: time, money, or both.

where gain is learnt: the prior counts like PRIOR_WEIGHT changes by a factor e, and every search that was made adds what it
really gained. Replanning pays when that share of the rest is worth more than the search itself, with a margin.
Noise does not trigger it: below the factor LEAST_CHANGE nothing is considered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from mlcd.adapt.limits import Keep
from mlcd.core.conditions import Conditions

__all__ = [
    "Conditions",
    "Lesson",
    "Replan",
    "expected_gain",
    "has_changed",
    "largest_change",
    "reconsider",
]

LEAST_CHANGE = 1.3  # times more or less; arrivals of data and readings differ by less from day to day
PRIOR_GAIN = 0.15  # of the cost, for each factor e
PRIOR_WEIGHT = 2.0
MOST_SHARE = 0.6
MARGIN = 1.2  # times the cost of the search must be saved


@dataclass(frozen=True)
class Lesson:
    """What a search after a change has gained: cost saved ÷ cost of going on as before."""

    change: float  # |ln f|
    gain: float


@dataclass(frozen=True)
class Replan:
    """Search for the deployment again."""

    why: str
    change: float = 0.0  # |ln f|


def reconsider(
    before: Conditions, now: Conditions, rest: float, search: float, lessons: Sequence[Lesson] = ()
) -> Keep | Replan:
    """Whether to search again, where going on as before would cost `rest` and a search about `search`."""
    name, change = largest_change(before, now)
    if not has_changed(before, now):
        return Keep()
    share = min(MOST_SHARE, expected_gain(lessons) * change)
    if rest <= 0 or share * rest < MARGIN * search:
        return Keep()
    return Replan(
        f"the {name} has changed {exp(change):.1f} times; other machines are expected to save {share:.0%} of the rest, "
        f"and replanning costs about {search / rest:.0%} of it",
        change,
    )


def has_changed(before: Conditions, now: Conditions) -> bool:
    """Whether it is more than what readings differ by."""
    return largest_change(before, now)[1] >= log(LEAST_CHANGE)


def largest_change(before: Conditions, now: Conditions) -> tuple[str, float]:
    """What has changed most, and its |ln f|; a thing of which nothing is known has not changed."""
    pairs = {
        "batch size": (before.batch_size, now.batch_size),
        "size of the model": (before.parameters, now.parameters),
        "amount of data": (before.samples, now.samples),
    }
    changes = {name: abs(log(new / old)) for name, (old, new) in pairs.items() if old > 0 and new > 0}
    return max(changes.items(), key=lambda item: item[1], default=("", 0.0))


def expected_gain(lessons: Sequence[Lesson]) -> float:
    """For each factor e: the prior and what was learnt, weighed by how much had changed."""
    weight = PRIOR_WEIGHT + sum(lesson.change for lesson in lessons)
    return max(0.0, (PRIOR_GAIN * PRIOR_WEIGHT + sum(lesson.gain for lesson in lessons)) / weight)
