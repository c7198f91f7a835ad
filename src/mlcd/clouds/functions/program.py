"""The user's program inside a function: a process group that dies with the handler."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mlcd.clouds.tasks.processes import family, seen

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
# On SIGTERM the shell waits for the program, which may be saving, and ends with its code instead of going on.
_ON_TERM = "trap 'exit $?' TERM\n"
_KILLED = 128 + signal.SIGKILL


class Program:
    """One run of a command."""

    def __init__(self, command: str, env: Mapping[str, str], folder: Path, log: Path) -> None:
        self.started_at = time.time()
        self.asked = ""  # why it was asked to end
        self._kill_at: float | None = None
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["bash", "-c", _ON_TERM + command],
                cwd=folder,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    @property
    def exit_code(self) -> int | None:
        """As shells show it; None: it runs."""
        code = self._process.poll()
        return 128 - code if code is not None and code < 0 else code

    @property
    def roots(self) -> set[int]:
        """The process that was started here."""
        return {self._process.pid}

    @property
    def was_killed(self) -> bool:
        """Whether a SIGKILL ended it that was not ours."""
        return self.exit_code == _KILLED and not self.asked

    def ask_to_end(self, why: str, grace_seconds: float) -> None:
        """SIGTERM now, SIGKILL after the grace; only the first time counts."""
        if not self.asked:
            self.asked = why
            self._kill_at = time.monotonic() + grace_seconds
            self._signal(signal.SIGTERM)

    def look(self) -> bool:
        """Whether it still runs; ends it when its grace is over."""
        if self.exit_code is None and self._kill_at is not None and time.monotonic() > self._kill_at:
            self.kill()
        return self.exit_code is None

    def kill(self) -> None:
        """End it and all that it has started, now."""
        members = family({self._process.pid}, seen())
        self._signal(signal.SIGKILL)
        for process in members:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
        self._process.wait()

    def usage(self) -> tuple[float, float]:
        """Memory in MB and CPU seconds, of all its processes at this moment."""
        members = family({self._process.pid}, seen())
        memory = sum(process.memory_bytes for process in members) / 2**20
        return memory, sum(process.cpu_seconds for process in members)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
