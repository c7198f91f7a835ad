"""How a job is shown while it is followed: live on a terminal, plain lines elsewhere, JSON lines, or not at all."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live as Region
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from mlcd.cli.screen import out, printable, show_json_line
from mlcd.cli.tables import plan_lines, totals, trials_table
from mlcd.core.live import Live
from mlcd.core.records import Event
from mlcd.core.run import JobState
from mlcd.core.task import TaskKind, TaskState
from mlcd.core.units import show_duration, show_rate, show_usd
from mlcd.core.view import JobView

_ROWS_BESIDE = 8  # of the terminal that are not for the table of trials
_PLAIN_SECONDS = 30.0  # between two lines of progress
_PLAIN_SHARE = 0.1
_PHASES = {TaskState.STARTING: "starting", TaskState.SETUP: "setting up", TaskState.RUNNING: "running"}


class Display(Protocol):
    """Shows snapshots of a job as they come."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, view: JobView, events: Sequence[Event]) -> None:
        """The job as it stands, with what happened since the last snapshot."""


class NoDisplay:
    """Shows nothing: the command writes JSON at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, view: JobView, events: Sequence[Event]) -> None:
        """Nothing."""


class JsonLines(NoDisplay):
    """Writes each event as a line of JSON."""

    def show(self, view: JobView, events: Sequence[Event]) -> None:
        """The events, in order."""
        for event in events:
            show_json_line({"event": event})


class PlainLines(NoDisplay):
    """One line for each event and now and then one of progress; no control characters."""

    def __init__(
        self,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        plan: Callable[[JobView], RenderableType] = plan_lines,
        plan_shown: bool = False,
    ) -> None:
        self.console = console or out()
        self.clock = clock
        self._plan = plan
        self._waiting: deque[Event] = deque()
        self._plan_shown = plan_shown
        self._told_at = clock()
        self._told_share = 0.0
        self._told_stall = False  # whether the last line told that no step is made

    def show(self, view: JobView, events: Sequence[Event]) -> None:
        """The events and the training's progress as they followed each other, and the plan in the place of its event.

        The events may be newer than the view: those from the plan on wait until the view has the plan.
        """
        self._waiting.extend(events)
        self._tell_until(view, view.record.submitted_at + view.spent.seconds)
        self._progress(view)
        self._tell_until(view, float("inf"))
        if has_plan_to_show(view):
            self._show_plan(view)

    def _tell_until(self, view: JobView, moment: float) -> None:
        while self._waiting and self._waiting[0].at <= moment:
            if self._waiting[0].kind == "plan" and view.record.plan is None:
                return
            self._tell(view, self._waiting.popleft())

    def _tell(self, view: JobView, event: Event) -> None:
        if event.kind == "plan":
            self._show_plan(view)
        else:
            after = show_duration(max(0.0, event.at - view.record.submitted_at))
            self._line(f"+{after}  {event.message}")

    def _show_plan(self, view: JobView) -> None:
        if not self._plan_shown:
            self._plan_shown = True
            self.console.print(self._plan(view))

    def _progress(self, view: JobView) -> None:
        share, now = training_share(view), self.clock()
        if view.live is None or share is None:
            return
        stalls = view.live.no_step_seconds > 0
        news = share >= self._told_share + _PLAIN_SHARE or (stalls and not self._told_stall)
        if news or now >= self._told_at + _PLAIN_SECONDS:
            self._told_at, self._told_share, self._told_stall = now, share, stalls
            self._line(f"+{show_duration(view.spent.seconds)}  {progress_words(view, share)}")

    def _line(self, words: str) -> None:
        """Never wrapped, so that one event stays one line for grep."""
        self.console.print(printable(words.replace("\n", " ")), soft_wrap=True)


class OnTerminal:
    """A region that redraws itself; what is final is printed above it and stays."""

    def __init__(
        self,
        console: Console | None = None,
        plan: Callable[[JobView], RenderableType] = plan_lines,
        plan_shown: bool = False,
    ) -> None:
        self.console = console or out()
        self._plan = plan
        self._region = Region(console=self.console, refresh_per_second=8, transient=True)
        self._spinner = Spinner("dots")
        self._plan_shown = plan_shown

    def __enter__(self) -> Self:
        self._region.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._region.update(Text(""))
        self._region.stop()

    def show(self, view: JobView, events: Sequence[Event]) -> None:
        """The search's table growing, then the plan, then the training's bar."""
        for event in events:
            if event.kind in ("warning", "decision"):
                self.console.print(printable(event.message, "yellow" if event.kind == "warning" else ""))
        if not self._plan_shown and has_plan_to_show(view):
            self._plan_shown = True
            self.console.print(self._plan(view))
        self._region.update(self._picture(view))

    def _picture(self, view: JobView) -> RenderableType:
        share = training_share(view)
        if view.record.state is JobState.TRAINING:
            return training_picture(view, share or 0.0)
        if view.record.state is not JobState.SEARCHING:
            return Text("")
        self._spinner.update(text=printable(probe_words(view)))
        rows = max(3, self.console.height - _ROWS_BESIDE)
        return Group(trials_table(view, newest=rows), self._spinner) if view.trials else Group(self._spinner)


def has_plan_to_show(view: JobView) -> bool:
    """Whether the search is over and its plan waits or is carried out."""
    return view.record.plan is not None and view.record.state is not JobState.SEARCHING


def training_share(view: JobView) -> float | None:
    """How much of the training is done; None while there is no training, or its length is not known."""
    plan = view.record.plan
    if plan is None or view.record.state is not JobState.TRAINING:
        return None
    work = view.work(plan.deployment)
    return min(1.0, view.samples_done / work) if work > 0 else None


def probe_words(view: JobView) -> str:
    """What the search does now."""
    spent = f"{show_duration(view.spent.seconds)}, {show_usd(view.spent.usd)} so far"
    tried = [live for live in (view.running or (view.live,)) if live is not None]
    tried = [live for live in tried if live.kind is TaskKind.PROBE]
    if not tried:
        return f"Searching: choosing what to try next ({spent})"
    return "\n".join(map(_probe_words, tried)) + f" ({spent})"


def _probe_words(live: Live) -> str:
    rate = f", {show_rate(live.samples_per_second)}" if live.samples_per_second > 0 else ""
    phase = _PHASES.get(live.state, "ending")
    return f"Trying {live.deployment}: {phase} for {show_duration(live.seconds)}{rate}, {show_usd(live.usd)}"


def progress_words(view: JobView, share: float) -> str:
    """The training's progress in one line."""
    live = view.live
    if live is None:
        return f"Training: {share:.0%}"
    words = [
        f"Training: {share:.0%}",
        _pace(live),
        f"{show_usd(view.spent.usd)} so far",
    ]
    if live.left_seconds is not None:
        words.insert(2, f"{show_duration(live.left_seconds)} left")
    words += [f"{name} {value:.4g}" for name, value in sorted(live.metrics.items())]
    return ", ".join(words)


def training_picture(view: JobView, share: float) -> RenderableType:
    """The training's bar with speed, time left, money so far and forecast against the limits, and metrics."""
    live, plan = view.live, view.record.plan
    where = live.deployment if live is not None else plan.deployment if plan is not None else ""
    bar = Table.grid(padding=(0, 1))
    bar.add_row(ProgressBar(total=1.0, completed=share, width=40, complete_style="cyan"), f"{share:.1%}", _left(view))
    parts: list[RenderableType] = [printable(f"Training on {where}{_attempt(view)}", "bold"), bar]
    if live is not None:
        done = f"{live.samples:,.0f} samples, {_pace(live)}{_ended_after(live)}"
        parts.append(Text(f"{done}; {show_duration(view.spent.seconds)} and {show_usd(view.spent.usd)} so far"))
        if live.total_seconds is not None and live.total_usd is not None:
            parts.append(Text("In all: ").append_text(totals(view.goal, live.total_seconds, live.total_usd)))
        if live.metrics:
            parts.append(
                printable(
                    "  ".join(f"{name} {value:.4g}" for name, value in sorted(live.metrics.items())),
                    "bold red" if live.nan_loss else "cyan",
                )
            )
    return Group(*parts)


def _pace(live: Live) -> str:
    """How fast it goes, once a step was seen, or for how long it has not gone on."""
    if live.no_step_seconds > 0:
        return f"no step for {show_duration(live.no_step_seconds)}"
    return show_rate(live.samples_per_second) if live.samples_per_second > 0 else "starting"


def _ended_after(live: Live) -> str:
    """When a training that makes no step is ended and started again."""
    if live.no_step_seconds == 0 or live.hang_seconds is None:
        return ""
    return f" (started again after {show_duration(live.hang_seconds)} without a sign of life)"


def _left(view: JobView) -> str:
    live = view.live
    if live is None:
        return "starting"
    if live.left_seconds is None:
        return ""
    return f"{show_duration(live.left_seconds)} left"


def _attempt(view: JobView) -> str:
    number = len(view.run.attempts)
    pause = view.run.pauses.get(view.run.attempts[-1].number) if number > 1 else None
    after = "" if pause is None else f", after {show_duration(pause)} without a step"
    return f" (attempt {number}{after})" if number > 1 else ""
