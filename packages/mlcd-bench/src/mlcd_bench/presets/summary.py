"""What all presets together have found, as tables, a page and data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mlcd_bench.presets.every import NotPlayed, Outcome, PresetResult

HEAD = ("preset", "title", "hold", "do not", "no direction", "seconds")


def summary_data(outcomes: Sequence[Outcome], seconds: float) -> dict[str, Any]:
    """As JSON knows it."""
    return {
        "presets": [outcome.data for outcome in outcomes],
        "hold": _count(outcomes, True),
        "do_not_hold": _count(outcomes, False),
        "not_played": [outcome.name for outcome in outcomes if isinstance(outcome, NotPlayed)],
        "seconds": seconds,
    }


def summary_cells(outcome: Outcome) -> tuple[str, ...]:
    """A row of the summary."""
    if isinstance(outcome, NotPlayed):
        return outcome.name, f"not played: {outcome.reason}", "", "", "", f"{outcome.seconds:.1f}"
    counts = (str(len(outcome.claims(holds))) for holds in (True, False, None))
    return outcome.name, outcome.title, *counts, f"{outcome.seconds:.1f}"


def failing_claims(outcomes: Iterable[Outcome]) -> Iterable[tuple[str, str, str, str]]:
    """Preset, claim, the paper and here of every claim that does not hold."""
    for outcome in outcomes:
        if isinstance(outcome, PresetResult):
            yield from ((outcome.name, each.claim, each.paper, each.ours) for each in outcome.claims(False))


def conclusion(outcomes: Sequence[Outcome], seconds: float) -> str:
    """All of it in a line."""
    missing = sum(isinstance(outcome, NotPlayed) for outcome in outcomes)
    played = f"{len(outcomes) - missing} presets in {seconds / 60:.1f} minutes"
    found = f"{_count(outcomes, True)} claims hold, {_count(outcomes, False)} do not"
    return f"{played}: {found}" + (f"; {missing} could not be played." if missing else ".")


def line(outcome: Outcome, done: int, total: int) -> str:
    """What is said as soon as a preset is played."""
    place = f"{done}/{total} {outcome.name}"
    if isinstance(outcome, NotPlayed):
        return f"{place}: not played: {outcome.reason}"
    hold, fail = len(outcome.claims(True)), len(outcome.claims(False))
    found = f"{hold} of {hold + fail} claims hold" if hold + fail else "its claims have no direction"
    return f"{place}: {found}, {outcome.seconds:.1f} s"


def summary_table(outcomes: Sequence[Outcome], seconds: float) -> RenderableType:
    """The claims that do not hold, each preset with its counts, and all of it in a line."""
    summary = Table(box=None)
    for at, name in enumerate(HEAD):
        summary.add_column(name, justify="left" if at < 2 else "right", no_wrap=True, overflow="ellipsis")
    for outcome in outcomes:
        summary.add_row(*summary_cells(outcome))
    return Group(*_failing_table(outcomes), summary, Text(conclusion(outcomes, seconds), style="bold"))


def _failing_table(outcomes: Sequence[Outcome]) -> Iterable[RenderableType]:
    rows = list(failing_claims(outcomes))
    if not rows:
        return
    table = Table("preset", "does not hold", "the paper", "here", box=None)
    for row in rows:
        table.add_row(*row)
    yield table
    yield Text()


def _count(outcomes: Iterable[Outcome], holds: bool) -> int:
    return sum(len(outcome.claims(holds)) for outcome in outcomes if isinstance(outcome, PresetResult))
