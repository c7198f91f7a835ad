"""What `mlcd bench` shows on a terminal, and what others get to read."""

from __future__ import annotations

import json
import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from mlcd_bench.runner import Report

WIDTH = 110  # where there is no terminal: figures cut off at 80 columns would be worse than long lines


class Bar:
    """A bar on a terminal, on the error channel; elsewhere only what is said in words."""

    def __init__(self, of_what: str) -> None:
        console = Console(stderr=True, highlight=False)
        columns = (TextColumn(of_what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task(of_what, total=None)

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    @property
    def report(self) -> Report:
        """What is called with how many are done, of how many."""
        return lambda done, total: self._bar.update(self._task, completed=done, total=total)

    def say(self, line: str) -> None:
        """A line above the bar."""
        self._bar.console.print(line, markup=False, soft_wrap=True)


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def print_out(thing: object) -> None:
    """Tables and text for people."""
    Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH).print(thing)


def print_json(data: object) -> None:
    """Data for programs."""
    sys.stdout.write(json.dumps(data, indent=1, allow_nan=False) + "\n")
