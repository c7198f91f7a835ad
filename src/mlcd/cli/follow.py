"""JobFollower a job to where it rests, and saying how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from mlcd.cli.displays import Display, JsonLines, NoDisplay, OnTerminal, PlainLines
from mlcd.cli.screen import interactive, lines, out, printable, show, show_json, show_json_line
from mlcd.cli.session import exit_code, print_detached
from mlcd.cli.tables import bill_table, plan_lines, state_text, totals
from mlcd.core.goal import Goal
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.core.units import show_duration, show_usd
from mlcd.core.view import JobStory, JobView
from mlcd.reporting.stopping import goes_on_from

if TYPE_CHECKING:
    from mlcd.client import ClientProtocol

_TAIL_LINES = 15
_LIMIT_CODES = (104, 105, 106)  # budget exhausted, deadline missed, goal unreachable


class JobFollower:
    """One job followed by one command, over a question in the middle if need be."""

    def __init__(
        self,
        client: ClientProtocol,
        job_id: str,
        *,
        as_json: bool,
        json_lines: bool = False,
        after: int = 0,
        explain: bool = False,
        plan_shown: bool = False,
    ) -> None:
        self.client = client
        self.job_id = job_id
        self.as_json = as_json or json_lines
        self.json_lines = json_lines
        self._unexplained = explain and not self.as_json
        self._display = self._choose_display(plan_shown)
        self._seen = after  # the number of the last event that is not told

    def until_rest(self) -> JobView:
        """Show the job until it rests; Ctrl-C leaves it running and ends the command."""
        try:
            with self._display:
                for view in self.client.follow(self.job_id):
                    self._show(view)
        except KeyboardInterrupt:
            raise typer.Exit(print_detached(self.job_id)) from None
        return view

    def confirmed(self, view: JobView) -> bool:
        """Ask whether the plan is to be carried out, where someone can be asked."""
        plan = view.record.plan
        if self.as_json or plan is None or not interactive():
            return False
        forecast = plan.forecast
        about = f"for about {show_duration(forecast.seconds)} and {show_usd(forecast.usd)}"
        return typer.confirm(f"Train on {plan.deployment} {about}?")

    def finish(self, view: JobView) -> int:
        """Say how it ended, in words or as JSON; gives the exit code."""
        if self.json_lines:
            show_json_line({"view": view})
        elif self.as_json:
            show_json(view)
        else:
            show(Text(""), *ending(view), *self._explanation())
        return exit_code(view)

    def _show(self, view: JobView) -> None:
        events = self.client.events(self.job_id, after=self._seen)
        self._seen = events[-1].number if events else self._seen
        self._display.show(view, events)

    def _choose_display(self, plan_shown: bool) -> Display:
        if self.json_lines:
            return JsonLines()
        if self.as_json:
            return NoDisplay()
        kind = OnTerminal if out().is_terminal else PlainLines
        return kind(plan=self._plan, plan_shown=plan_shown)

    def _plan(self, view: JobView) -> RenderableType:
        """The plan, and in plain words why, if that is wanted."""
        return Group(plan_lines(view), *self._explanation())

    def _explanation(self) -> list[RenderableType]:
        """Told once: with the plan, or at the end where there is none."""
        if not self._unexplained:
            return []
        self._unexplained = False
        return explanation(self.client.story(self.job_id))


def explanation(story: JobStory) -> list[RenderableType]:
    """Why this deployment, what was not taken, and what better would take."""
    from mlcd.reporting import explain

    parts: list[RenderableType] = []
    for passage in explain(story):
        parts += [Text(""), printable(passage.title, "bold")]
        parts += [Padding(printable(one), (0, 0, 0, 2)) for one in passage.sentences if one]
    return parts


def ending(view: JobView) -> list[RenderableType]:
    """What there is to say of a job that rests: result, bill, forecast beside fact, and what to do next."""
    record = view.record
    head = Text.assemble(printable(record.id, "bold"), ": ", state_text(view))
    parts: list[RenderableType] = [head]
    if record.error:
        parts.append(printable(record.error, "red" if record.state is JobState.FAILED else "yellow"))
    parts += _failed_log(view)
    if view.run.attempts:
        parts += [*facts(view), Text(""), bill_table(view), Text("")]
    return parts + [printable(line) for line in what_next(view)]


def facts(view: JobView) -> list[RenderableType]:
    """Where the model is, what was done, forecast beside fact, and the limits."""
    plan = view.record.plan
    seconds = sum(attempt.seconds for attempt in view.run.attempts)
    usd = sum(attempt.usd for attempt in view.run.attempts)
    expected = f"{show_duration(plan.forecast.seconds)}, {show_usd(plan.forecast.usd)}" if plan is not None else ""
    return list(
        lines(
            ("Model", view.model),
            ("Trained", f"{view.samples_done:,.0f} samples{_attempts(view)}"),
            ("Saved", _saved(view)),
            ("Loss", printable(_nan_loss(view), "bold red") if _nan_loss(view) else ""),
            ("Training", f"{show_duration(seconds)}, {show_usd(usd)}"),
            ("Forecast", expected),
            ("Waited", show_duration(view.waiting_seconds) if view.waiting_seconds > 0 else ""),
            ("Stopped", show_duration(view.stopped_seconds) if view.stopped_seconds > 0 else ""),
            ("Total", totals(view.goal, view.spent.seconds, view.spent.usd)),
        )
    )


def _saved(view: JobView) -> str:
    """How much of it outlives the present attempt; of a job that is done that is no question."""
    if view.record.state is JobState.SUCCEEDED:
        return ""
    return f"{view.saved_samples:,.0f} samples in the newest checkpoint" if view.saved_samples > 0 else "nothing"


def _nan_loss(view: JobView) -> str:
    """The loss that was no number at the end; empty where all was well."""
    name = view.run.attempts[-1].nan_loss if view.run.attempts else ""
    return f"{name} was nan or infinite at the end" if name else ""


def what_next(view: JobView) -> list[str]:
    """The commands that go on from here."""
    job, state = view.record.id, view.record.state
    report = f"mlcd report {job}   the whole story as a page"
    if state is JobState.PLANNED:
        return [f"mlcd resume {job} --yes   train by this plan", report]
    if state is JobState.PAUSED or view.record.exit_code in _LIMIT_CODES:
        return [_with_new_limits(view), report]
    if state is JobState.FAILED:
        again = f"try again {goes_on_from(view)}".rstrip()
        return [f"mlcd logs {job}     what the program wrote", f"mlcd resume {job}   {again}", report]
    if state is JobState.STOPPED:
        return [f"mlcd resume {job}   go on {goes_on_from(view) or 'where it stopped'}", report]
    if state.active and not view.record.started:
        return [f"mlcd resume {job}   start it"]
    if state.active:
        return [f"mlcd status {job}   its state", f"mlcd stop {job}     end it"]
    return [report]


def _with_new_limits(view: JobView) -> str:
    """How to go on with more of what there is a limit to: with what would do, where that is known."""
    options = _known_limits(view.record) or _any_limits(view.goal)
    about = ("go on", "go on with a new limit", "go on with new limits")[len(options)]
    return f"{' '.join(['mlcd resume', view.record.id, *options])}   {about}"


def _known_limits(record: JobRecord) -> list[str]:
    budget, deadline = record.enough_usd, record.enough_seconds
    known = [] if budget is None else [f"--budget {budget:.10g}"]
    return known if deadline is None else [*known, f"--deadline {show_duration(deadline).replace(' ', '')}"]


def _any_limits(goal: Goal) -> list[str]:
    given = ((goal.budget_usd, "--budget USD"), (goal.deadline_seconds, "--deadline TIME"))
    return [option for limit, option in given if limit is not None]


def _attempts(view: JobView) -> str:
    count = len(view.run.attempts)
    moved = view.run.move_seconds
    paused = f" (moves took {show_duration(moved)})" if moved > 0 else ""
    return f" in {count} attempts{paused}" if count > 1 else ""


def _failed_log(view: JobView) -> list[RenderableType]:
    """The end of the newest failure's log, where nothing at all could be measured."""
    failed = [trial.failure for trial in view.trials if trial.failure is not None]
    if view.record.state is not JobState.FAILED or not failed or len(failed) < len(view.trials):
        return []
    tail = failed[-1].log_tail.rstrip().splitlines()[-_TAIL_LINES:]
    if "\n".join(tail) in view.record.error:
        return []
    return [printable("\n".join(tail), "dim")] if tail else []
