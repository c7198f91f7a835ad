"""What is shown while a job is followed."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

import stories
from mlcd.cli.displays import OnTerminal, PlainLines, probe_words, progress_words
from mlcd.core.task import TaskState
from mlcd.core.view import JobView


def terminal(height: int = 30) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80, height=height, color_system=None)


def shown(view: JobView, height: int = 30) -> str:
    console = terminal(height)
    with OnTerminal(console) as display:
        display.show(view, ())
        console.print(display._picture(view))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def at(share: float) -> JobView:
    view = stories.training()
    assert view.live is not None
    live = replace(view.live, samples=stories.SAMPLES * share)
    return replace(view, live=live, run=replace(view.run, attempts=()))


def test_the_search_shows_its_trials_and_what_is_tried_now() -> None:
    text = shown(stories.searching())
    assert "1 × p3.2xlarge" in text
    assert "Trying 6 × p2.xlarge, batch 256: running for 2m 10s, 800/s" in text


def test_a_small_terminal_shows_the_newest_trials() -> None:
    text = shown(replace(stories.searching(), trials=stories.TRIALS), height=11)
    assert "2 × p3.2xlarge" in text
    assert "c5.4xlarge" not in text


def test_the_plan_is_printed_once() -> None:
    console = terminal()
    with OnTerminal(console) as display:
        for view in (stories.planned(), stories.training(), stories.training()):
            display.show(view, ())
    assert console.file.getvalue().count("Chosen") == 1  # type: ignore[attr-defined]


def test_the_training_shows_its_bar_and_forecast() -> None:
    text = shown(stories.training())
    assert "Training on 4 × p3.2xlarge, batch 256" in text
    assert "50.0%" in text
    assert "$22.43 of $60.00" in text


def test_warnings_stay_on_the_screen() -> None:
    console = terminal()
    warning = replace(stories.events()[0], kind="warning", message="The disk [is] nearly full.")
    with OnTerminal(console) as display:
        display.show(stories.searching(), (warning,))
    assert "The disk [is] nearly full." in console.file.getvalue()  # type: ignore[attr-defined]


def test_plain_progress_comes_every_tenth_or_half_minute() -> None:
    now = [0.0]
    console = Console(file=io.StringIO(), width=80)
    display = PlainLines(console, clock=lambda: now[0])
    for seconds, share in ((0, 0.02), (1, 0.11), (2, 0.12), (3, 0.15), (33, 0.16), (34, 0.27)):
        now[0] = float(seconds)
        display.show(at(share), ())
    told = [line for line in console.file.getvalue().splitlines() if "Training: " in line]  # type: ignore[attr-defined]
    assert [line.split("Training: ")[1].split(",")[0] for line in told] == ["11%", "16%", "27%"]


def test_what_happened_before_the_progress_is_told_before_it() -> None:
    console = Console(file=io.StringIO(), width=80)
    view = at(0.31)
    now = view.record.submitted_at + view.spent.seconds
    began, ended = (
        replace(stories.events()[0], kind="attempt", at=moment, message=message)
        for moment, message in ((now - 1.0, "Training on 4"), (now + 1.0, "Attempt 1 finished"))
    )
    PlainLines(console).show(view, (began, ended))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.index("Training on 4") < text.index("Training: 31%") < text.index("Attempt 1 finished")


def test_a_program_without_a_step_is_starting() -> None:
    view = at(0.31)
    assert view.live is not None
    waits = replace(view, live=replace(view.live, samples_per_second=0.0, left_seconds=None))
    assert progress_words(waits, 0.31).startswith("Training: 31%, starting, $")
    assert "0/s" not in shown(waits)


def test_a_training_that_makes_no_step_is_said_to_and_has_neither_rate_nor_time_left() -> None:
    view = at(0.31)
    assert view.live is not None
    stalls = replace(
        view,
        live=replace(view.live, samples_per_second=0.0, left_seconds=None, no_step_seconds=40.0, hang_seconds=120.0),
    )
    assert progress_words(stalls, 0.31).startswith("Training: 31%, no step for 40.0s, $")
    assert "no step for 40.0s (started again after 2m 00s without a sign of life)" in " ".join(shown(stalls).split())
    console = Console(file=io.StringIO(), width=80)
    lines = PlainLines(console, clock=lambda: 0.0)
    for one in (view, stalls, stalls):
        lines.show(one, ())
    assert console.file.getvalue().count("no step for") == 1  # type: ignore[attr-defined]


def test_an_event_is_one_line_however_long() -> None:
    console = Console(file=io.StringIO(), width=80)
    event = replace(stories.events()[0], message="long " * 40 + "\x1b[2J\nend")
    PlainLines(console).show(stories.searching(), (event,))
    assert len(console.file.getvalue().splitlines()) == 1  # type: ignore[attr-defined]
    assert "\x1b" not in console.file.getvalue()  # type: ignore[attr-defined]


def test_between_probes_the_search_chooses() -> None:
    assert probe_words(replace(stories.searching(), live=None)).startswith("Searching: choosing what to try next")
    view = stories.searching()
    assert view.live is not None
    starting = replace(view, live=replace(view.live, state=TaskState.STARTING, samples_per_second=0.0))
    assert "starting for 2m 10s, $0.2000" in probe_words(starting)
