"""Charts of the search: what was tried in which order, and time against cost of all that is known."""

from __future__ import annotations

from math import inf

from mlcd.core.goal import Aim, Goal
from mlcd.core.study import Ledger
from mlcd.core.trial import Trial
from mlcd.core.units import show_duration, show_usd
from mlcd.core.view import JobStory
from mlcd.forecast.curves import knee, pareto_front
from mlcd.reporting.figures import (
    Figure,
    Trace,
    axis,
    colour,
    dots,
    label,
    line,
    money,
    scale,
    symbol,
    time_unit,
)
from mlcd.reporting.training_estimates import TrainingEstimate, chosen, estimate_of_trial, training_estimates

_AIMS = {
    Aim.FASTEST: "hours of training",
    Aim.CHEAPEST: "dollars of training",
    Aim.BALANCED: "√(hours × dollars) of training",
}


def order_figure(story: JobStory) -> Figure | None:
    """The value of each deployment tried, in order, with the best so far and the money spent on the search."""
    trials = story.view.trials
    values = [_value(story, trial) for trial in trials]
    known = [value for value in values if value is not None]
    if not known:
        return None
    numbers = list(range(1, len(trials) + 1))
    allowed = [_allowed(story, trial) for trial in trials]
    best = _best_so_far([value if fits else None for value, fits in zip(values, allowed, strict=True)])
    traces = [
        line("best so far", numbers, best, "var:c1", shape="hv", hoverinfo="skip"),
        *_measured(trials, values, allowed),
        *_failed(trials, max(known)),
        line("spent on the search ($, right)", numbers, _running_usd(trials), "var:c2", dash="dot", yaxis="y2"),
    ]
    return Figure(
        "Deployments tried, in order",
        (tuple(traces),),
        x=axis("trial", dtick=max(1, len(trials) // 12), range=[0.5, len(trials) + 0.5]),
        y=axis(_AIMS[story.view.goal.aim], **scale(known)),
        right=axis(
            "",
            overlaying="y",
            side="right",
            showgrid=False,
            tickmode="auto",
            **money(rangemode="tozero"),
        ),
    )


def time_cost_figure(story: JobStory) -> Figure | None:
    """Total time against total money of every deployment known, with the choice, the limits and the best trade-offs."""
    known = training_estimates(story)
    if not known:
        return None
    search = _search(story)
    totals = [one.total(search) for one in known]
    unit, unit_name = time_unit(max(total.seconds for total in totals))
    types = list(dict.fromkeys(one.deployment.offer.name for one in known))
    traces = [_front(known, search, unit)]
    for number, name in enumerate(types):
        traces += _of_type([one for one in known if one.deployment.offer.name == name], search, unit, number)
    traces += _limit_lines(story.view.goal, totals, unit)
    traces += [_knee_mark(known, search, unit), *_chosen_mark(story, search, unit)]
    return Figure(
        f"Time against cost{_beyond(story.view.goal, totals)}",
        (tuple(traces),),
        x=axis(f"total time ({unit_name}), search included", **scale(total.seconds / unit for total in totals)),
        y=axis("total cost, search included", **scale((total.usd for total in totals), "$")),
    )


def _value(story: JobStory, trial: Trial) -> float | None:
    estimate = estimate_of_trial(story.view, trial)
    return story.view.goal.value(estimate.seconds, estimate.usd) if estimate is not None else None


def _allowed(story: JobStory, trial: Trial) -> bool:
    """Whether the training there would keep the limits after all that the search has cost."""
    estimate = estimate_of_trial(story.view, trial)
    total = estimate.total(_search(story)) if estimate is not None else None
    return total is not None and story.view.goal.allows(total.seconds, total.usd)


def _measured(trials: tuple[Trial, ...], values: list[float | None], allowed: list[bool]) -> list[Trace]:
    """Solid where the limits would be kept, hollow where not."""
    traces: list[Trace] = []
    for fits, name, mark in ((True, "measured", "circle"), (False, "would pass a limit", "circle-open")):
        some = [(i, y) for i, y in enumerate(values) if y is not None and allowed[i] is fits]
        if some:
            names = [str(trials[i].deployment) for i, _ in some]
            x, y = [float(i + 1) for i, _ in some], [value for _, value in some]
            traces.append(dots(name, x, y, "var:c1", mark, text=names))
    return traces


def _best_so_far(values: list[float | None]) -> list[float]:
    best, line_ = inf, []
    for value in values:
        best = min(best, value if value is not None else inf)
        line_.append(best)
    return line_


def _running_usd(trials: tuple[Trial, ...]) -> list[float]:
    return [sum(trial.usd for trial in trials[: i + 1]) for i in range(len(trials))]


def _failed(trials: tuple[Trial, ...], height: float) -> list[Trace]:
    failed = [(i + 1, trial) for i, trial in enumerate(trials) if trial.failure is not None]
    if not failed:
        return []
    names = [f"{trial.deployment}: {trial.failure.reason}" for _, trial in failed if trial.failure]
    return [dots("failed", [i for i, _ in failed], [height] * len(failed), "var:bad", "x", text=names)]


def _search(story: JobStory) -> Ledger:
    plan = story.view.record.plan
    return plan.search if plan is not None else story.view.search


def _front(known: tuple[TrainingEstimate, ...], search: Ledger, unit: float) -> Trace:
    totals = [one.total(search) for one in pareto_front(known)]
    x, y = [total.seconds / unit for total in totals], [total.usd for total in totals]
    return line("best trade-offs", x, y, "var:muted", dash="dot", width=1.5, hoverinfo="skip")


def _knee_mark(known: tuple[TrainingEstimate, ...], search: Ledger, unit: float) -> Trace:
    """Where going faster starts to cost much."""
    bend = knee(pareto_front(known))
    total = bend.total(search)
    mark = dots("knee", [total.seconds / unit], [total.usd], "var:ink", "diamond-open", size=18)
    words = "%{text}<br>%{x:.4g}, %{y:$.4g}<extra>knee</extra>"
    return {**mark, "text": [label(str(bend.deployment))], "hovertemplate": words}


def _of_type(known: list[TrainingEstimate], search: Ledger, unit: float, number: int) -> list[Trace]:
    """Solid where measured, hollow where only believed; one entry in the legend."""
    traces: list[Trace] = []
    for measured in (True, False):
        some = [one for one in known if one.measured is measured]
        if some:
            totals = [one.total(search) for one in some]
            traces.append(
                dots(
                    some[0].deployment.offer.name,
                    [total.seconds / unit for total in totals],
                    [total.usd for total in totals],
                    colour(number),
                    f"{symbol(number)}{'' if measured else '-open'}",
                    size=11 if measured else 8,
                    text=[f"{one.deployment}{'' if measured else ' (believed)'}" for one in some],
                    hovertemplate="%{text}<br>%{x:.4g}, %{y:$.4g}<extra></extra>",
                    legendgroup=f"type{number}",
                    showlegend=not traces,
                )
            )
    return traces


def _limit_lines(goal: Goal, totals: list[Ledger], unit: float) -> list[Trace]:
    """The limits, where they lie near enough to the deployments not to squeeze them into a corner."""
    times, costs = [total.seconds / unit for total in totals], [total.usd for total in totals]
    style = {"dash": "dash", "width": 1.5, "mode": "lines+text", "showlegend": False, "hoverinfo": "skip"}
    traces: list[Trace] = []
    if goal.deadline_seconds is not None and _near(goal.deadline_seconds / unit, times):
        x = goal.deadline_seconds / unit
        words = {"text": ["", "deadline"], "textposition": "middle right"}
        traces.append(line("deadline", [x, x], [min(costs), max(costs)], "var:bad", **words, **style))
    if goal.budget_usd is not None and _near(goal.budget_usd, costs):
        words = {"text": ["", "budget"], "textposition": "top left"}
        ends = [min(times), max(times)]
        traces.append(line("budget", ends, [goal.budget_usd] * 2, "var:bad", **words, **style))
    return traces


def _beyond(goal: Goal, totals: list[Ledger]) -> str:
    """The limits that lie too far off to be drawn, in words."""
    far = []
    if goal.deadline_seconds is not None and not _near(goal.deadline_seconds, [total.seconds for total in totals]):
        far.append(f"the deadline at {show_duration(goal.deadline_seconds)}")
    if goal.budget_usd is not None and not _near(goal.budget_usd, [total.usd for total in totals]):
        far.append(f"the budget at {show_usd(goal.budget_usd)}")
    return f" (outside the picture: {', '.join(far)})" if far else ""


def _near(limit: float, values: list[float]) -> bool:
    return min(values) / 1.5 <= limit <= max(values) * 1.5


def _chosen_mark(story: JobStory, search: Ledger, unit: float) -> list[Trace]:
    best = chosen(story)
    if best is None:
        return []
    total = best.total(search)
    mark = dots(
        "chosen",
        [total.seconds / unit],
        [total.usd],
        "var:good",
        "star",
        size=18,
        text=[str(best.deployment)],
    )
    return [{**mark, "hovertemplate": "%{text}<br>%{x:.4g}, %{y:$.4g}<extra>chosen</extra>"}]
