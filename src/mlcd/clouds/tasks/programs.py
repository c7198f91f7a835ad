"""Programs in process groups that die with whoever started them: started, watched and ended the same way everywhere.

It travels to machines and into functions: standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mlcd.clouds.tasks.processes import ProcessInfo, family, seen
from mlcd.clouds.tasks.signals import SIGNALS

SERVING_GRACE_SECONDS = 2.0  # a parameter server has nothing to save
SIGNALLED = 128  # exit codes from here on mean a signal
KILLED = SIGNALLED + signal.SIGKILL
_PR_SET_PDEATHSIG = 1
_OOM_SCORE = b"500"  # should memory run out, the kernel ends the training rather than who looks after it
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
    """What runs on one node now: a process group for each program, with one folder and one log."""

    def __init__(self, folder: Path, log: Path, processors: frozenset[int] = frozenset()) -> None:
        self.folder = folder
        self.log = log
        self._processors = processors  # all that they may use; empty: any
        self._running: list[subprocess.Popen[bytes]] = []
        self.serving: set[int] = set()  # those of the processes that only serve, and are not waited for

    def start(self, programs: Sequence[Program]) -> None:
        """Start these in the place of those before."""
        self._running = [self._spawn(program) for program in programs]
        pairs = zip(self._running, programs)  # noqa: B905  # Python 3.9
        self.serving = {process.pid for process, program in pairs if program.serves}

    def worked(self) -> bool:
        """Whether all that work have ended well; where all only serve, there is nobody to wait for."""
        return all(process.poll() == 0 for process in self._running if process.pid not in self.serving)

    def exit_code(self) -> int | None:
        """0 where all that work have ended well, else the first code that is not 0, else None."""
        return 0 if self.worked() else self.failed_code()

    def failed_code(self) -> int | None:
        """The first exit code that is not 0, as shells show it; None: nothing has failed."""
        return next((code for code in self.codes() if code), None)

    def codes(self) -> list[int | None]:
        """Exit codes as shells show them; only of those that work, where these have ended well."""
        some = [process for process in self._running if process.pid not in self.serving]
        counted = some if some and self.worked() else self._running
        return [shown(process.poll()) for process in counted]

    @property
    def in_order(self) -> bool:
        """Whether those that work had the time to finish what they were writing: no signal ended them."""
        codes = [process.poll() for process in self._running if process.pid not in self.serving]
        return all(code is not None and 0 <= code < SIGNALLED for code in codes)

    @property
    def only_serve(self) -> bool:
        """Whether nothing works here."""
        return bool(self._running) and not self.working

    @property
    def roots(self) -> set[int]:
        """The processes that were started here."""
        return {process.pid for process in self._running}

    @property
    def working(self) -> set[int]:
        """Those of them that are waited for."""
        return self.roots - self.serving

    def family(self, everyone: list[ProcessInfo] | None = None) -> list[ProcessInfo]:
        """All processes of this node that still run."""
        return family(self.roots, seen() if everyone is None else everyone)

    def say(self, message: str) -> None:
        """Leave a line in the log."""
        with suppress(OSError), self.log.open("a") as log:
            log.write(f"[mlcd] {message}\n")

    def signal(self, number: signal.Signals, roots: Iterable[int] | None = None) -> None:
        """Send a signal to the groups of all that was started here, or of these."""
        for pid in self.roots if roots is None else roots:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)

    def kill(self) -> None:
        """End all of them, and all that they have started, now."""
        members = self.family()
        self.signal(signal.SIGKILL)
        for process in members:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
        for started in self._running:
            with suppress(subprocess.TimeoutExpired):  # it waits for a device and cannot die
                started.wait(timeout=5.0)

    def poll(self) -> None:
        """Take note of those that have ended."""
        for process in self._running:
            process.poll()

    def _spawn(self, program: Program) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                ["bash", "-c", _ON_TERM + program.command],
                cwd=self.folder,
                env=dict(program.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=partial(_become_program, os.getpid(), self._processors),
            )


def end_programs(nodes: Sequence[Programs], grace_seconds: float, pause: Callable[[float], None]) -> None:
    """SIGTERM, the grace, SIGKILL; first those that work, who may need those that serve to save what they have."""
    _ask_to_end(nodes, [node.working for node in nodes], grace_seconds, pause)
    if any(node.serving for node in nodes):
        serving_grace = min(grace_seconds, SERVING_GRACE_SECONDS)
        _ask_to_end(nodes, [node.serving for node in nodes], serving_grace, pause)
    for node in nodes:
        node.kill()


def shown(code: int | None) -> int | None:
    """An exit code as shells show it: 128 and the number of the signal that ended it."""
    return SIGNALLED - code if code is not None and code < 0 else code


def _ask_to_end(
    nodes: Sequence[Programs], roots: Sequence[set[int]], seconds: float, pause: Callable[[float], None]
) -> None:
    """SIGTERM to these roots of each node, and wait for their families."""
    deadline = time.monotonic() + seconds
    for node, pids in zip(nodes, roots):  # noqa: B905  # Python 3.9
        node.signal(signal.SIGTERM, pids)
    everyone: set[int] = set().union(*roots)
    while everyone and _run_still(nodes, everyone) and time.monotonic() < deadline:
        pause(0.05)


def _run_still(nodes: Sequence[Programs], roots: set[int]) -> bool:
    for node in nodes:
        node.poll()
    return bool(family(roots, seen()))


def _become_program(parent: int, processors: frozenset[int]) -> None:
    """In the child, before the program: die with the parent, and rather than it when memory runs out."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it died before we could ask to be told
    if processors:
        os.sched_setaffinity(0, processors)
    with suppress(OSError):
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(file, _OOM_SCORE)
        os.close(file)
