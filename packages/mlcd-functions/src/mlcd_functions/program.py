"""The user's program inside a function: it is asked to end while the function goes on reporting."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from mlcd.clouds.tasks.node import NodePrograms
from mlcd.clouds.tasks.programs import Program


class FunctionProgram(NodePrograms):
    """One program after the other, in the same working copy."""

    def __init__(self, folder: Path, log: Path) -> None:
        super().__init__(folder, log)
        self.started_at = 0.0
        self.asked = ""  # why it was asked to end
        self._kill_at: float | None = None

    def run(self, program: Program) -> None:
        """Start it in the place of the one before."""
        self.started_at, self.asked, self._kill_at = time.time(), "", None
        self.start([program])

    @property
    def code(self) -> int | None:
        """As shells show it; None: it runs, or none was started."""
        return self.exit_code() if self.roots else None

    def ask_to_end(self, why: str, grace_seconds: float) -> None:
        """SIGTERM now, SIGKILL after the grace; only the first time counts."""
        if not self.asked:
            self.asked = why
            self._kill_at = time.monotonic() + grace_seconds
            self.signal(signal.SIGTERM)

    def end_if_late(self) -> None:
        """SIGKILL once its grace is over."""
        if self._kill_at is not None and time.monotonic() > self._kill_at:
            self.kill()
