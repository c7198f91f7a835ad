"""The head of the report: state, goal, and how time and money stand against their limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mlcd.core.goal import Aim, Goal
from mlcd.core.run import JobState
from mlcd.core.units import show_duration, show_usd
from mlcd.core.view import JobView
from mlcd.report.html import Html, join, tag

_AIMS = {
    Aim.FASTEST: "as fast as possible",
    Aim.CHEAPEST: "as cheap as possible",
    Aim.BALANCED: "time and money in balance",
}
_TONES = {
    JobState.SUCCEEDED: "good",
    JobState.FAILED: "bad",
    JobState.PAUSED: "warn",
    JobState.STOPPED: "warn",
}


def head(view: JobView) -> Html:
    """Name, state, goal and the gauges."""
    record = view.record
    state = tag("span", record.state, class_=f"badge {_TONES.get(record.state, 'busy')}")
    return join(
        (
            tag("p", "mlcd report", class_="eyebrow"),
            tag("h1", record.job.name, " ", state),
            tag("p", goal_in_words(view.goal), class_="goal"),
            tag("p", record.error, class_="error") if record.error else "",
            tag("div", *_cards(view), class_="cards"),
        )
    )


def goal_in_words(goal: Goal) -> str:
    """'as fast as possible, for at most $10.00'."""
    words = [_AIMS[goal.aim]]
    if goal.deadline_seconds is not None:
        words.append(f"within {show_duration(goal.deadline_seconds)}")
    if goal.budget_usd is not None:
        words.append(f"for at most {show_usd(goal.budget_usd)}")
    return ", ".join(words)


def _cards(view: JobView) -> Iterable[Html]:
    expected = _expected(view)
    yield _gauge(
        "Time",
        show_duration,
        (view.search.seconds, view.spent.seconds - view.search.seconds, expected[0]),
        view.goal.deadline_seconds,
        "deadline",
    )
    yield _gauge(
        "Money",
        show_usd,
        (view.search.usd, view.spent.usd - view.search.usd, expected[1]),
        view.goal.budget_usd,
        "budget",
    )
    plan = view.record.plan
    if plan is not None:
        yield _card("Deployment", str(plan.deployment), f"{show_usd(plan.deployment.usd_per_hour)} an hour")
    yield _card(
        "Tried",
        f"{len(view.trials)} deployments",
        f"{sum(t.failure is not None for t in view.trials)} failed",
    )


def _expected(view: JobView) -> tuple[float, float]:
    """Time and money that the training is still expected to take."""
    if view.record.plan is None or view.record.state is JobState.SUCCEEDED:
        return 0.0, 0.0
    if view.live is not None and view.live.total_seconds is not None and view.live.total_usd is not None:
        total = (view.live.total_seconds, view.live.total_usd)
    else:
        total = (view.record.plan.total.seconds, view.record.plan.total.usd)
    return max(0.0, total[0] - view.spent.seconds), max(0.0, total[1] - view.spent.usd)


def _gauge(
    title: str,
    show: Callable[[float], str],
    parts: tuple[float, float, float],
    limit: float | None,
    limit_name: str,
) -> Html:
    """A bar of search, training and what is still expected, as shares of the limit or of their sum."""
    search, training, expected = (max(0.0, part) for part in parts)
    total = search + training + expected
    whole = max(total, limit or 0.0) or 1.0
    bar = [
        tag("i", class_=kind, style=f"width:{100 * part / whole:.2f}%", title=f"{kind}: {show(part)}")
        for kind, part in (("search", search), ("training", training), ("expected", expected))
    ]
    if limit is not None and limit < whole:
        bar.append(tag("u", style=f"left:{100 * limit / whole:.2f}%", title=f"{limit_name}: {show(limit)}"))
    key = f"search {show(search)} · training {show(training)}" + (
        f" · expected {show(expected)}" if expected else ""
    )
    return _card(
        title,
        show(search + training),
        tag("span", *bar, class_="bar"),
        key,
        _verdict(total, limit, limit_name, show),
    )


def _verdict(total: float, limit: float | None, name: str, show: Callable[[float], str]) -> Html:
    if limit is None:
        return tag("span", f"no {name}", class_="quiet")
    if total <= limit:
        return tag("span", f"{name} of {show(limit)} kept, {show(limit - total)} to spare", class_="good")
    return tag("span", f"{name} of {show(limit)} passed by {show(total - limit)}", class_="bad")


def _card(title: str, value: str, *notes: object) -> Html:
    return tag(
        "div",
        tag("h2", title),
        tag("p", value, class_="value"),
        *(tag("p", note) for note in notes),
        class_="card",
    )
