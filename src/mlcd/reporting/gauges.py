"""The head of the report: state, goal, and how time and money stand against their limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mlcd.core.goal import Aim, Goal
from mlcd.core.plan import Plan
from mlcd.core.run import JobState
from mlcd.core.task import TaskKind
from mlcd.core.units import show_duration, show_usd
from mlcd.core.view import JobView
from mlcd.reporting.html import Html, join, tag
from mlcd.reporting.training_estimates import prices_by_type

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


@dataclass(frozen=True)
class Gauge:
    """Something that is used up: how to say it, what used it, and its limit."""

    title: str
    show: Callable[[float], str]
    parts: dict[str, float]  # search, training, the time that it lay between, and what is still expected
    limit: float | None
    limit_name: str

    @property
    def spent(self) -> float:
        """Used up so far."""
        return self.total - self.parts["expected"]

    @property
    def total(self) -> float:
        """With what is still expected."""
        return sum(self.parts.values())


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
    done = view.record.state is JobState.SUCCEEDED
    for gauge in gauges_of(view):
        yield _gauge_card(gauge, done)
    plan = view.record.plan
    if plan is not None:
        now = view.record.deployment
        yield _card(
            "Deployment", str(now), *filter(None, (f"{show_usd(now.usd_per_hour)} an hour", prices_by_type(now)))
        )
    trials = (*view.trials, *(trial for trial in view.later_trials if trial.seconds > 0))
    failed = sum(trial.failure is not None for trial in trials)
    yield _card("Tried", counted(len(trials), "deployment"), f"{failed} failed" if failed else "none failed")


def gauges_of(view: JobView) -> tuple[Gauge, Gauge]:
    """Time and money, each against its limit."""
    seconds, usd = _expected(view)
    goal, spent, search = view.goal, view.spent, view.search
    idle = {"waiting": view.waiting_seconds, "stopped": view.stopped_seconds}
    times = _parts(search.seconds, spent.seconds, seconds, idle)
    money = _parts(search.usd, spent.usd, usd)
    return (
        Gauge("Time", show_duration, times, goal.deadline_seconds, "deadline"),
        Gauge("Money", show_usd, money, goal.budget_usd, "budget"),
    )


def counted(count: int, noun: str) -> str:
    """'1 deployment', '8 deployments'."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _parts(search: float, spent: float, expected: float, idle: Mapping[str, float] = {}) -> dict[str, float]:
    """What it went into; idle parts only where there are any."""
    training = max(0.0, spent - search - sum(idle.values()))
    shown = {kind: part for kind, part in idle.items() if part > 0}
    return {"search": max(0.0, search), **shown, "training": training, "expected": max(0.0, expected)}


def _expected(view: JobView) -> tuple[float, float]:
    """Time and money that the training is still expected to take."""
    if view.record.plan is None or view.record.state is JobState.SUCCEEDED:
        return 0.0, 0.0
    live = view.live
    if live is not None and live.total_seconds is not None and live.total_usd is not None:
        return max(0.0, live.total_seconds - view.spent.seconds), max(0.0, live.total_usd - view.spent.usd)
    if not view.run.attempts:
        return view.record.plan.forecast.seconds, view.record.plan.forecast.usd
    here, trains = view.record.deployment, live is not None and live.kind is TaskKind.TRAINING
    seconds = _rest_seconds(view, view.record.plan, trains)
    return seconds, here.usd(seconds) if trains else here.rental_usd(seconds)


def _rest_seconds(view: JobView, plan: Plan, trains: bool) -> float:
    """What the training would still take: from a running task's count, or a new start from the newest checkpoint."""
    work, last = view.work(view.record.deployment), view.run.attempts[-1]
    done, start = (view.samples_done, 0.0) if trains else (view.saved_samples, view.start_seconds)
    same = last.samples_per_second > 0 and last.deployment == view.record.deployment
    planned = work / max(1e-9, plan.forecast.seconds - view.start_seconds)
    return start + max(0.0, work - done) / (last.samples_per_second if same else planned)


def _gauge_card(gauge: Gauge, done: bool) -> Html:
    """A bar of search, training and what is still expected, as shares of the limit or of their sum."""
    show, limit, total = gauge.show, gauge.limit, gauge.total
    whole = max(total, limit or 0.0) or 1.0
    bar = [
        tag("i", class_=kind, style=f"width:{100 * part / whole:.2f}%", title=f"{kind}: {show(part)}")
        for kind, part in gauge.parts.items()
    ]
    if limit is not None and limit < whole:
        bar.append(tag("u", style=f"left:{100 * limit / whole:.2f}%", title=f"{gauge.limit_name}: {show(limit)}"))
    key = " · ".join(f"{kind} {show(part)}" for kind, part in gauge.parts.items() if part or kind != "expected")
    return _card(gauge.title, show(gauge.spent), tag("span", *bar, class_="bar"), key, limit_status(gauge, done))


def limit_status(gauge: Gauge, done: bool) -> Html:
    """Whether the limit was kept, or as it looks now will be."""
    name, limit, show, total = gauge.limit_name, gauge.limit, gauge.show, gauge.total
    if limit is None:
        return tag("span", f"no {name}", class_="quiet")
    if total > limit:
        return tag(
            "span",
            f"{name} of {show(limit)} {'passed' if done else 'in danger'} by {show(total - limit)}",
            class_="bad",
        )
    kept = f"{name} of {show(limit)} kept, {show(limit - total)} to spare"
    return tag("span", kept if done else f"{show(limit - total)} left of the {name} of {show(limit)}", class_="good")


def _card(title: str, value: str, *notes: object) -> Html:
    return tag(
        "div",
        tag("h2", title),
        tag("p", value, class_="value"),
        *(tag("p", note) for note in notes),
        class_="card",
    )
