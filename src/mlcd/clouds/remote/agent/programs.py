"""The processes of a node: a group each, with one log, which die with their agent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mlcd.clouds.tasks.processes import family, seen

SERVING_GRACE_SECONDS = 2.0  # a parameter server has nothing to save
_PR_SET_PDEATHSIG = 1
_OOM_SCORE = b"500"  # should memory run out, the kernel ends the training rather than its agent
# On SIGTERM the shell waits for the program, which may be saving, and ends with its code instead of going on.
_ON_TERM = "trap 'exit $?' TERM\n"
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Program:
    """One process to start."""

    command: str  # for bash
    env: Mapping[str, str]
    serves: bool = False  # for as long as the others work: it is not waited for, and ended after them


class Programs:
    """What runs on this node now."""

    def __init__(self, folder: Path, log: Path) -> None:
        self._folder = folder
        self._log = log
        self._running: list[subprocess.Popen[bytes]] = []
        self._serving: list[subprocess.Popen[bytes]] = []  # of these, where others work

    def start(self, programs: Sequence[Program]) -> None:
        """Start these in the place of those before."""
        self._running = [self._spawn(program.command, program.env) for program in programs]
        beside = [self._running[place] for place, program in enumerate(programs) if program.serves]
        self._serving = beside if len(beside) < len(programs) else []

    def exit_code(self) -> int | None:
        """0 when all have ended well that are waited for, else the first code that is not 0, else None."""
        if all(process.poll() == 0 for process in self._waited_for):
            return 0
        return next((code for process in self._running if (code := process.poll())), None)

    def codes(self) -> list[int | None]:
        """Exit codes as shells show them, 128 and the number of the signal that ended it; of servers, where one failed."""
        counted = self._waited_for if self.exit_code() == 0 else self._running
        codes = [process.poll() for process in counted]
        return [128 - code if code is not None and code < 0 else code for code in codes]

    @property
    def roots(self) -> set[int]:
        """The processes that were started here."""
        return {process.pid for process in self._running}

    def end(self, grace_seconds: float, meanwhile: Callable[[], None]) -> None:
        """SIGTERM, the grace, SIGKILL; those that serve are asked last, for others may need them to save."""
        self._ask_to_end(self._waited_for, grace_seconds, meanwhile)
        self._ask_to_end(self._serving, min(grace_seconds, SERVING_GRACE_SECONDS), meanwhile)
        _signal({process.pid for process in self._running}, signal.SIGKILL)
        for process in self._running:
            with suppress(subprocess.TimeoutExpired):  # it waits for a device and cannot die
                process.wait(timeout=5.0)

    @property
    def _waited_for(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self._running if process not in self._serving]

    def _ask_to_end(
        self, processes: list[subprocess.Popen[bytes]], seconds: float, meanwhile: Callable[[], None]
    ) -> None:
        deadline = time.monotonic() + seconds
        roots = {process.pid for process in processes}
        _signal(roots, signal.SIGTERM)
        while roots and _alive(processes) and time.monotonic() < deadline:
            meanwhile()
            time.sleep(0.05)

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


def _alive(processes: list[subprocess.Popen[bytes]]) -> bool:
    for process in processes:
        process.poll()  # takes note of those that ended
    return bool(family({process.pid for process in processes}, seen()))


def _signal(roots: set[int], number: signal.Signals) -> None:
    for pid in roots:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)


def _die_with(agent: int) -> None:
    """In the child, before the program: end when the agent does, and rather than it when memory runs out."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != agent:
        os._exit(1)
    with suppress(OSError):
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(file, _OOM_SCORE)
        os.close(file)
