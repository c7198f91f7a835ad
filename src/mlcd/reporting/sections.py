"""The report's tables and words, one function for each section; an empty section is left out."""

from __future__ import annotations

from datetime import UTC, datetime

from mlcd.core.job import Job
from mlcd.core.run import JobState
from mlcd.core.study import Ledger
from mlcd.core.trial import Trial
from mlcd.core.units import show_duration, show_rate, show_usd
from mlcd.core.view import JobStory, JobView
from mlcd.reporting.explain import explain
from mlcd.reporting.html import Html, Row, join, table, tag
from mlcd.reporting.training_estimates import estimate_of_trial

_MOST_EVENTS = 300


def words_section(story: JobStory) -> Html:
    """The choice in plain words."""
    return join(
        tag("div", tag("h3", passage.title), tag("ul", *(tag("li", one) for one in passage.sentences if one)))
        for passage in explain(story)
    )


def trials_section(story: JobStory) -> Html:
    """Everything that was tried, with what it gave and what it cost."""
    view = story.view
    if not view.trials:
        return Html("")
    plan = view.record.plan
    rows = []
    for number, trial in enumerate(view.trials, start=1):
        taken = plan is not None and trial.deployment == plan.deployment
        estimate = estimate_of_trial(view, trial)
        expected = (show_duration(estimate.seconds), show_usd(estimate.usd)) if estimate else ("", "")
        took = (show_duration(trial.seconds), show_usd(trial.usd))
        name = f"{trial.deployment}{' ★' if taken else ''}"
        kind = "chosen" if taken else "failed" if trial.failure else ""
        rows.append(Row(kind, number, name, *_rate_and_band(trial), *took, *expected))
    return table((*_TRIAL_COLUMNS, "training", "its cost"), rows, numbers=(0, 2, 3, 4, 5, 6, 7))


def later_trials_section(story: JobStory) -> Html:
    """What was tried in replanning; the first line is the speed at which the job ran then."""
    trials = story.view.later_trials
    if not trials:
        return Html("")
    rows = []
    for number, trial in enumerate(trials, start=len(story.view.trials) + 1):
        took = (show_duration(trial.seconds), show_usd(trial.usd)) if trial.seconds else ("while training", "")
        cells = (number, trial.deployment, *_rate_and_band(trial), *took)
        rows.append(Row("failed" if trial.failure else "", *cells))
    title = tag("h3", "Replanned, when the job had changed")
    return join((title, table(_TRIAL_COLUMNS, rows, numbers=(0, 2, 3, 4, 5))))


_TRIAL_COLUMNS = ("", "deployment", "samples/s", "95 %", "tried for", "cost")


def _rate_and_band(trial: Trial) -> tuple[str, str]:
    seen = trial.measurement
    if seen is None:
        return trial.failure.reason if trial.failure else "", ""
    return show_rate(seen.samples_per_second), f"{show_rate(seen.low)} – {show_rate(seen.high)}"


def bill_section(story: JobStory) -> Html:
    """Every line of the bill with what it was for, and a total that adds up."""
    bill = story.view.bill
    if not bill:
        return tag("p", "Nothing has been charged.", class_="quiet")
    numbers = {task.id: f"{task.kind} {task.number}" for task in story.tasks}
    lines: list[tuple[object, ...]] = [
        (numbers.get(item.task_id, item.kind), item.what, show_duration(item.seconds), show_usd(item.usd))
        for item in bill
    ]
    for kind in dict.fromkeys(item.kind for item in bill):
        part = sum(item.usd for item in bill if item.kind is kind)
        lines.append(Row("subtotal", f"all {kind} tasks", "", "", show_usd(part)))
    lines.append(Row("total", "total", "", "", show_usd(sum(item.usd for item in bill))))
    return table(("task", "what", "time", "cost"), lines, numbers=(2, 3))


def forecast_section(story: JobStory) -> Html:
    """What the plan expected beside what happened."""
    plan, fact = story.view.record.plan, training_fact(story.view)
    if plan is None:
        return Html("")
    forecast, search = plan.forecast, plan.search
    head = ("", "forecast", "95 %", "fact", "difference")
    spread_time = f"{show_duration(forecast.low_seconds)} – {show_duration(forecast.high_seconds)}"
    spread_usd = f"{show_usd(forecast.low_usd)} – {show_usd(forecast.high_usd)}"
    began = bool(story.view.run.attempts)
    done = story.view.record.state is JobState.SUCCEEDED
    rows = [
        (
            "training time",
            show_duration(forecast.seconds),
            spread_time,
            *_beside(forecast.seconds, fact.seconds, began, done),
        ),
        (
            "training cost",
            show_usd(forecast.usd),
            spread_usd,
            *_beside(forecast.usd, fact.usd, began, done, money=True),
        ),
        (
            "total time",
            show_duration(search.seconds + forecast.seconds),
            "",
            show_duration(story.view.spent.seconds),
            "",
        ),
        ("total cost", show_usd(search.usd + forecast.usd), "", show_usd(story.view.spent.usd), ""),
    ]
    return table(head, rows, numbers=(1, 2, 3, 4))


def training_fact(view: JobView) -> Ledger:
    """Time and money that the training has taken, over all attempts."""
    attempts = view.run.attempts
    return Ledger(sum(attempt.seconds for attempt in attempts), sum(attempt.usd for attempt in attempts))


def attempts_section(story: JobStory) -> Html:
    """Each attempt of the training and how it ended."""
    attempts, pauses = story.view.run.attempts, story.view.run.pauses
    if not attempts:
        return Html("")
    rows = [
        (
            one.number,
            one.deployment,
            show_duration(pauses[one.number]) if one.number in pauses else "",
            show_duration(one.seconds),
            f"{one.samples:,.0f}",
            show_usd(one.usd),
            one.end or "running",
            one.why,
        )
        for one in attempts
    ]
    head = ("", "deployment", "no step for", "time", "samples", "cost", "ended", "why")
    return table(head, rows, numbers=(0, 2, 3, 4, 5))


def failures_section(story: JobStory) -> Html:
    """What went wrong in the probes, with the end of each log."""
    failed = [(i, trial) for i, trial in enumerate(story.view.trials, start=1) if trial.failure is not None]
    return join(
        tag(
            "details",
            tag("summary", f"Trial {number}, {trial.deployment}: {trial.failure.reason}"),
            tag("p", trial.failure.message),
            tag("pre", trial.failure.log_tail or "(the log is empty)"),
            open="open" if len(failed) == 1 else None,
        )
        for number, trial in failed
        if trial.failure is not None
    )


def events_section(story: JobStory) -> Html:
    """What happened and what was decided, in order; the middle is left out where there is very much."""
    events = story.events
    start = story.view.record.submitted_at
    half = _MOST_EVENTS // 2
    kept = events if len(events) <= _MOST_EVENTS else (*events[:half], *events[-half:])
    rows = [(f"+{show_duration(max(0.0, event.at - start))}", event.kind, event.message) for event in kept]
    note = f"{len(events) - len(kept)} events in the middle are left out." if len(kept) < len(events) else ""
    return (
        join((table(("after", "what", ""), rows, numbers=(0,)), tag("p", note, class_="quiet"))) if rows else Html("")
    )


def facts_section(story: JobStory, version: str) -> Html:
    """The job and where it ran. Values of environment variables are not shown."""
    record = story.view.record
    facts = {
        "job": record.id,
        "submitted": datetime.fromtimestamp(record.submitted_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "cloud": " ".join([record.cloud, *(f"{key}={value}" for key, value in sorted(record.cloud_options.items()))]),
        **_job_facts(record.job),
        "deployments in the space": f"{len(story.space)}" if story.space else "",
        "prices": _prices(story),
        "model": story.view.model,
        "mlcd": version,
    }
    return table(("", ""), [(tag("b", name), value) for name, value in facts.items() if value])


def _job_facts(job: Job) -> dict[str, object]:
    work = job.work
    return {
        "platform": job.platform,
        "run": tag("code", job.run),
        "setup": tag("code", job.setup) if job.setup else "",
        "work": f"{work.samples:,.0f} samples" if work else "",
        "until": f"{work.until.metric} reaches {work.until.value:g}" if work and work.until else "",
        "nodes": f"{job.nodes.fewest} to {job.nodes.most}",
        "batch sizes": ", ".join(str(size) for size in job.batch_sizes.choices),
        "search": f"{job.search.strategy}, seed {job.search.seed}",
        "environment variables": ", ".join(sorted(job.envs)),
        "secrets (names)": ", ".join(sorted(job.secret_names)),
    }


def _prices(story: JobStory) -> str:
    sources = {" ".join(part for part in (offer.source, offer.priced_at) if part) for offer in story.view.record.offers}
    return "; ".join(sorted(source for source in sources if source))


def _beside(expected: float, fact: float, began: bool, done: bool, money: bool = False) -> tuple[str, str]:
    """The fact as it is now, and how far off the forecast was once it is final."""
    if not began:
        return "–", ""
    shown = show_usd(fact) if money else show_duration(fact)
    return shown, f"{fact / expected - 1:+.1%}" if done and expected > 0 else ""
