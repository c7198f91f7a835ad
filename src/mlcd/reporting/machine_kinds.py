"""What each kind of machine would have cost: virtual machines beside functions, where both were searched."""

from __future__ import annotations

from mlcd.core.units import show_duration, show_usd
from mlcd.core.view import JobStory
from mlcd.reporting.html import Html, Row, join, table, tag
from mlcd.reporting.training_estimates import TrainingEstimate, training_estimates

_NAMES = {"vm": "virtual machines", "function": "functions"}


def kinds_section(story: JobStory) -> Html:
    """The best of each kind, in the light of the goal; nothing where there is but one."""
    best = best_of_each_kind(story)
    if len(best) < 2:
        return Html("")
    plan = story.view.record.plan
    taken = plan.deployment.offer.kind if plan is not None else ""
    rows = [
        Row(
            "chosen" if kind == taken else "",
            _NAMES.get(kind, kind) + (" ★" if kind == taken else ""),
            estimate.deployment,
            show_duration(estimate.seconds),
            show_usd(estimate.usd),
            "measured" if estimate.measured else "believed",
        )
        for kind, estimate in best.items()
    ]
    head = ("", "the best of them", "training", "its cost", "known how")
    return join([table(head, rows, numbers=(2, 3)), tag("p", _in_words(best), class_="quiet")])


def best_of_each_kind(story: JobStory) -> dict[str, TrainingEstimate]:
    """Kind → what serves the goal best of it, cheapest kind first; measured ones go before believed ones."""
    goal, search = story.view.goal, story.view.spent
    best: dict[str, TrainingEstimate] = {}
    for estimate in training_estimates(story):
        kind = estimate.deployment.offer.kind
        totals = estimate.total(search)
        rank = (not estimate.measured, goal.value(totals.seconds, totals.usd))
        known = best.get(kind)
        if known is None or rank < (not known.measured, _value(story, known)):
            best[kind] = estimate
    return dict(sorted(best.items(), key=lambda item: item[1].usd))


def _value(story: JobStory, estimate: TrainingEstimate) -> float:
    totals = estimate.total(story.view.spent)
    return story.view.goal.value(totals.seconds, totals.usd)


def _in_words(best: dict[str, TrainingEstimate]) -> str:
    """How the two cheapest kinds compare; what nobody measured is not compared."""
    (cheap, one), (expensive, other) = list(best.items())[:2]
    unknown = [_NAMES.get(kind, kind) for kind, estimate in best.items() if not estimate.measured]
    if unknown:
        return f"None of the {' and '.join(unknown)} was measured: what they would have cost is not known."
    factor = other.usd / one.usd if one.usd > 0 else 0.0
    slower = one.seconds / other.seconds if other.seconds > 0 else 0.0
    pace = f"{slower:.1f} times as long" if slower >= 1 else f"{1 / max(slower, 1e-9):.1f} times shorter"
    return (
        f"{_NAMES.get(expensive, expensive).capitalize()} would have cost {factor:.1f} times as much as "
        f"{_NAMES.get(cheap, cheap)}, which take {pace}."
    )
