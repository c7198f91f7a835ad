"""What a runner listens to while it waits: signals, the task's limit, and the end of its folders."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from mlcd.clouds.tasks.outcome import STOPPED, TIME_LIMIT, Ending, Outcome
from mlcd.clouds.tasks.signals import SIGNALS
from mlcd.core.task import EndCause


def check_files(stop: Path, folders: tuple[Path, ...]) -> None:
    """Raise Ending when the task shall stop, or has no folder any more."""
    if stop.exists():
        raise Ending(STOPPED)
    for folder in folders:
        if not folder.is_dir():
            raise Ending(Outcome(EndCause.RUNNER_LOST, f"its folder {folder} was removed"))


class Watch:
    """Waits, and raises Ending once there is nothing more to wait for."""

    def __init__(self, stop: Path, folders: tuple[Path, ...]) -> None:
        self._stop = stop
        self._folders = folders
        self._until: float | None = None
        self._asked = False

    def limit(self, seconds: float | None) -> None:
        """Count the task's time from now, when it begins to cost money; None: it has no limit."""
        self._until = None if seconds is None else time.monotonic() + seconds

    def wait(self, seconds: float) -> None:
        """Let time pass, less of it when a child ends; raise Ending when the task must end."""
        self._pass(seconds)
        self.check()

    def pause(self, seconds: float) -> None:
        """Let time pass, less of it when a child ends, come what may."""
        self._pass(seconds)

    def check(self) -> None:
        """Raise Ending when the task must end."""
        self._pass(0.0)
        if self._asked:
            raise Ending(STOPPED)
        if self._until is not None and time.monotonic() > self._until:
            raise Ending(TIME_LIMIT)
        check_files(self._stop, self._folders)

    def _pass(self, seconds: float) -> None:
        caught = signal.sigtimedwait(SIGNALS, seconds)
        if caught is not None and caught.si_signo in (signal.SIGTERM, signal.SIGINT):
            self._asked = True
