"""The processes of a node: a group each, with one log, which die with their agent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from mlcd.clouds.local.processes import family, seen

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = b"500"  # should memory run out, the kernel ends the training rather than its agent
# On SIGTERM the shell waits for the program, which may be saving, and ends with its code instead of going on.
_ON_TERM = "trap 'exit $?' TERM\n"
_LIBC = ctypes.CDLL(None, use_errno=True)


class Programs:
    """What runs on this node now."""

    def __init__(self, folder: Path, log: Path) -> None:
        self._folder = folder
        self._log = log
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, commands: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        """Start these in the place of those before."""
        self._running = []
        for command, env in commands:
            self._running.append(self._spawn(command, env))

    def exit_code(self) -> int | None:
        """The first code that is not 0, else 0 when all have ended, else None."""
        codes = [process.poll() for process in self._running]
        failed = next((code for code in codes if code), None)
        if failed is not None:
            return failed
        return 0 if all(code == 0 for code in codes) else None

    def codes(self) -> list[int | None]:
        """Exit codes as shells show them: 128 and the number of the signal that ended it."""
        codes = [process.poll() for process in self._running]
        return [128 - code if code is not None and code < 0 else code for code in codes]

    @property
    def roots(self) -> set[int]:
        """The processes that were started here."""
        return {process.pid for process in self._running}

    def end(self, grace_seconds: float, meanwhile: Callable[[], None]) -> None:
        """SIGTERM, the grace, SIGKILL."""
        deadline = time.monotonic() + grace_seconds
        self._signal(signal.SIGTERM)
        while self._alive() and time.monotonic() < deadline:
            meanwhile()
            time.sleep(0.05)
        self._signal(signal.SIGKILL)
        for process in self._running:
            with suppress(subprocess.TimeoutExpired):  # it waits for a device and cannot die
                process.wait(timeout=5.0)

    def _alive(self) -> bool:
        self.exit_code()  # takes note of those that ended
        return bool(family(self.roots, seen()))

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.roots:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)

    def _spawn(self, command: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                ["bash", "-c", _ON_TERM + command],
                cwd=self._folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=partial(_die_with, os.getpid()),
            )


def _die_with(agent: int) -> None:
    """In the child, before the program: end when the agent does, and rather than it when memory runs out."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != agent:
        os._exit(1)
    with suppress(OSError):
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(file, _OOM_SCORE)
        os.close(file)
