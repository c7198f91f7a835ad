"""Nouns as tables and lines that fit 80 columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mlcd.cli.screen import lines, printable
from mlcd.core.goal import Goal
from mlcd.core.machines import Offer
from mlcd.core.plan import Plan
from mlcd.core.trial import Failure, Trial
from mlcd.core.units import show_duration, show_rate, show_usd
from mlcd.core.view import Check, Finding, JobView, Stray
from mlcd.reporting.training_estimates import estimate_of_trial, samples_by_batch

CHOSEN = "▶"
_ERROR = re.compile(r"[\w.]*(Error|Exception|Interrupt|Exit)\b")  # how Python names what ended a program
_LONGEST_CAUSE = 300


def table(*columns: str, right: Iterable[str] = ()) -> Table:
    """An empty table in the house's dress; the columns in `right` hold numbers, the others may wrap."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False)
    numbers = set(right)
    for name in columns:
        if name in numbers:
            made.add_column(name, justify="right", no_wrap=True)
        else:
            made.add_column(name, overflow="fold")
    return made


def trials_table(view: JobView, newest: int | None = None) -> Table:
    """What was tried, what it gave and cost, and what the whole training would take there."""
    several = len({trial.deployment.batch_size for trial in view.trials}) > 1
    batch = ("batch",) if several else ()
    numbers = (*batch, "samples/s", "±", "tried", "cost", "training", "for")
    made = table("", "deployment", *numbers, right=("", *numbers))
    plan = view.record.plan
    numbered = list(enumerate(view.trials, start=1))
    for number, trial in numbered if newest is None else numbered[-newest:]:
        taken = plan is not None and trial.deployment == plan.deployment and trial.measurement is not None
        sizes = (str(trial.deployment.batch_size or ""),) if several else ()
        mark = f"{CHOSEN if taken else ''}{number}"
        made.add_row(mark, _tried(trial), *sizes, *_trial_cells(view, trial), style="bold green" if taken else "")
    return made


def trials_lines(view: JobView) -> RenderableType:
    """The table of trials, with what is known of each failure beneath it."""
    numbered = enumerate(view.trials, start=1)
    known = [(f"{number}", _cause(trial.failure)) for number, trial in numbered if trial.failure]
    told = [(number, cause) for number, cause in known if cause]
    return Group(trials_table(view), *([Text(""), *lines(*told)] if told else []))


def plan_lines(view: JobView) -> RenderableType:
    """The plan: what was tried, what is chosen, what it is expected to take, and why."""
    plan = view.record.plan
    if plan is None:
        return Text("There is no plan yet.")
    tried = [trials_lines(view), Text("")] if view.trials else []  # stored models may do without any probe
    return Group(*tried, *plan_facts(view, plan))


def plan_facts(view: JobView, plan: Plan) -> Iterable[RenderableType]:
    """The plan in a few lines."""
    forecast = plan.forecast
    times = f"{show_duration(forecast.low_seconds)} to {show_duration(forecast.high_seconds)}"
    money = f"{show_usd(forecast.low_usd)} to {show_usd(forecast.high_usd)}"
    return lines(
        ("Chosen", printable(f"{plan.deployment}, {show_usd(plan.deployment.usd_per_hour)}/h", "bold green")),
        ("Training", f"{show_duration(forecast.seconds)} ({times}), {show_usd(forecast.usd)} ({money})"),
        ("Samples", samples_by_batch(view.record, plan.deployment)),
        ("Search", f"{show_duration(plan.search.seconds)}, {show_usd(plan.search.usd)}"),
        ("Total", totals(view.goal, plan.total.seconds, plan.total.usd)),
        ("Why", view.plan_reason),
    )


def totals(goal: Goal, seconds: float, usd: float) -> Text:
    """Time and money against their limits, red where one is passed."""
    time = _against(show_duration(seconds), goal.deadline_seconds, seconds, show_duration)
    money = _against(show_usd(usd), goal.budget_usd, usd, show_usd)
    return Text.assemble(time, ", ", money)


def jobs_table(views: Sequence[JobView]) -> Table:
    """All jobs at a glance."""
    made = table("job", "state", "done", "time", "spent", "where", right=("done", "time", "spent"))
    for view in views:
        plan = view.record.plan
        made.add_row(
            printable(view.record.id),
            state_text(view),
            done_share(view),
            show_duration(view.spent.seconds),
            show_usd(view.spent.usd),
            printable(str(view.record.deployment) if plan is not None else view.record.cloud),
        )
    return made


def state_text(view: JobView) -> Text:
    """The job's state in its colour."""
    state = view.record.state
    styles = {"succeeded": "green", "failed": "red", "paused": "yellow", "stopped": "yellow"}
    return Text(f"{state}{_unattended(view)}", style=styles.get(state, "cyan"))


def _unattended(view: JobView) -> str:
    if not view.record.state.active or view.controlled:
        return ""
    return " (no controller)" if view.record.started else " (not started)"


def done_share(view: JobView) -> str:
    """How much of the training is done, where it has begun."""
    plan = view.record.plan
    work = view.work(plan.deployment) if plan is not None else 0.0
    return f"{min(1.0, view.samples_done / work):.0%}" if work > 0 and view.run.attempts else ""


def bill_table(view: JobView) -> Table:
    """What the search and the training cost, and their sum."""
    made = table("", "tasks", "cost", right=("tasks", "cost"))
    for kind in dict.fromkeys(item.kind for item in view.bill):
        part = [item for item in view.bill if item.kind is kind]
        made.add_row(str(kind), f"{len({item.task_id for item in part})}", show_usd(sum(item.usd for item in part)))
    made.add_row("total", "", show_usd(sum(item.usd for item in view.bill)), style="bold")
    return made


def offers_table(offers: Sequence[Offer]) -> Table:
    """What is for sale."""
    numbers = ("vCPU", "GiB", "GPUs", "$/h", "nodes")
    made = table("cloud", "instance", "vCPU", "GiB", "GPUs", "$/h", "nodes", "region", right=numbers)
    for offer in offers:
        machine = offer.instance
        made.add_row(
            printable(offer.cloud),
            printable(offer.name),
            f"{machine.vcpus:g}" if machine.vcpus else "",
            f"{machine.memory_gib:.4g}" if machine.memory_gib else "",
            f"{machine.gpus} {machine.gpu_model}".strip() if machine.gpus else "",
            f"{offer.usd_per_hour:.4g}",
            f"{offer.max_nodes}",
            printable(offer.region),
        )
    return made


def check_table(check: Check) -> Table:
    """For each kind of machine how many deployments would be looked at, and what trying one costs."""
    made = table("instance", "nodes", "batch sizes", "deployments", "one probe costs", right=("deployments",))
    for name in dict.fromkeys(deployment.offer.name for deployment in check.space):
        some = [(one, usd) for one, usd in zip(check.space, check.probe_usd, strict=True) if one.offer.name == name]
        made.add_row(
            printable(name),
            _span([one.nodes for one, _ in some], str),
            _span([one.batch_size for one, _ in some if one.batch_size is not None], str),
            f"{len(some)}",
            _span([usd for _, usd in some], show_usd),
        )
    return made


def findings_table(findings: Sequence[Finding]) -> Table:
    """What an account needs, and whether it is there."""
    shown = table("", "what", "found")
    for finding in findings:
        mark = Text("ok", "green") if finding.ok else Text("no", "red")
        found = "\n".join(filter(None, (finding.detail, finding.hint)))
        shown.add_row(mark, printable(finding.what), printable(found))
    return shown


def strays_table(strays: Sequence[Stray]) -> Table:
    """What runs and belongs to no job at work."""
    made = table("cloud", "what", "job", "why")
    for stray in strays:
        ended = " (asked to end)" if stray.ended else ""
        made.add_row(
            printable(stray.cloud),
            printable(stray.owned.what),
            printable(stray.owned.job_id),
            printable(stray.why + ended),
        )
    return made


def _tried(trial: Trial) -> Text:
    """Nodes and type, with the reason beneath where it failed."""
    name = f"{trial.deployment.nodes} × {trial.deployment.offer.name}{trial.deployment.serving}"
    return printable(name) if trial.failure is None else printable(f"{name}\n  {trial.failure.reason}", "red")


def _cause(failure: Failure) -> str:
    """Why it failed, with the error that the log ends with; empty where no more is known than the table says."""
    named = [line.strip() for line in failure.log_tail.splitlines() if _ERROR.match(line.strip())]
    words = failure.message if failure.message != failure.reason else ""
    return ": ".join(part for part in (words, named[-1][:_LONGEST_CAUSE] if named else "") if part)


def _trial_cells(view: JobView, trial: Trial) -> list[str]:
    prospect = estimate_of_trial(view, trial)
    seen = trial.measurement
    known = seen is not None and seen.samples_per_second > 0
    return [
        show_rate(seen.samples_per_second).removesuffix("/s") if seen else "",
        f"{(seen.high - seen.low) / 2 / seen.samples_per_second:.0%}" if seen and known else "",
        show_duration(trial.seconds),
        show_usd(trial.usd),
        show_duration(prospect.seconds) if prospect else "",
        show_usd(prospect.usd) if prospect else "",
    ]


def _against(shown: str, limit: float | None, value: float, show: Callable[[float], str]) -> Text:
    if limit is None:
        return Text(shown)
    words = f"{shown} of {show(limit)}"
    return Text(words, style="red" if value > limit else "green")


def _span(values: Sequence[float], show: Callable[[float], str]) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{show(low)}" if low == high else f"{show(low)} to {show(high)}"
