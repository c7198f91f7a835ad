"""A node is a process group with its own cores, folder, log and environment, which dies with its runner."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mlcd.clouds.tasks.processes import Seen, family, seen
from mlcd.clouds.tasks.signals import SIGNALS
from mlcd.platforms.base import Node, Process

SERVING_GRACE_SECONDS = 2.0  # a parameter server has nothing to save
_PR_SET_PDEATHSIG = 1
_OOM_SCORE = (
    b"500"  # should memory run out, the kernel ends the training rather than its runner or the desktop
)
# On SIGTERM the shell waits for the program, which may be saving, and ends with its code instead of going on.
_ON_TERM = "trap 'exit $?' TERM\n"
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class LocalNode:
    """One node and what runs on it now."""

    node: Node
    processors: frozenset[int]
    copy: Path
    log: Path
    env: dict[str, str]
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    serving: set[int] = field(default_factory=set)  # of these: the pids of those that are not waited for

    def start(self, processes: Sequence[Process]) -> None:
        """Start these in the place of those before."""
        self.running, self.serving = [], set()
        for process in processes:
            started = self._spawn(
                process.command, {**self.env, **process.env, "MLCD_WORKDIR": str(self.copy)}
            )
            self.running.append(started)
            if process.serves:
                self.serving.add(started.pid)

    def exit_code(self) -> int | None:
        """Of those that work: the first code that is not 0, else 0 when all have ended, else None."""
        codes = [process.poll() for process in self.running if process.pid not in self.serving]
        failed = next((code for code in codes if code), None)
        if failed is not None:
            return failed
        return 0 if all(code == 0 for code in codes) else None

    def server_code(self) -> int | None:
        """Of those that serve: the first code that is not 0, else None."""
        codes = [process.poll() for process in self.running if process.pid in self.serving]
        return next((code for code in codes if code), None)

    @property
    def roots(self) -> set[int]:
        """The processes that were started here."""
        return {process.pid for process in self.running}

    @property
    def working(self) -> set[int]:
        """Those of them that are waited for."""
        return self.roots - self.serving

    def family(self, everyone: list[Seen]) -> list[Seen]:
        """All processes of this node that still run."""
        return family(self.roots, everyone)

    def say(self, message: str) -> None:
        """Leave a line in the node's log."""
        with suppress(OSError), self.log.open("a") as log:
            log.write(f"[mlcd] {message}\n")

    def signal(self, number: signal.Signals, roots: set[int] | None = None) -> None:
        """Send a signal to everything that runs here, or to these and what they started."""
        for pid in self.roots if roots is None else roots:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)

    def _spawn(self, command: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                ["bash", "-c", _ON_TERM + command],
                cwd=self.copy,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=partial(_become_node, self.processors, os.getpid()),
            )


def end_nodes(nodes: Sequence[LocalNode], grace_seconds: float, pause: Callable[[float], None]) -> None:
    """SIGTERM, the grace, SIGKILL; first those that work, who may need those that serve to save what they have."""
    _ask_to_end(nodes, [node.working for node in nodes], grace_seconds, pause)
    if any(node.serving for node in nodes):
        serving_grace = min(grace_seconds, SERVING_GRACE_SECONDS)
        _ask_to_end(nodes, [node.serving for node in nodes], serving_grace, pause)
    for node in nodes:
        node.signal(signal.SIGKILL)
        for process in node.running:
            with suppress(subprocess.TimeoutExpired):  # it waits for a device and cannot die
                process.wait(timeout=5.0)


def _ask_to_end(
    nodes: Sequence[LocalNode],
    roots: Sequence[set[int]],
    grace_seconds: float,
    pause: Callable[[float], None],
) -> None:
    """SIGTERM to these roots of each node, and wait for their families."""
    deadline = time.monotonic() + grace_seconds
    for node, pids in zip(nodes, roots, strict=True):
        node.signal(signal.SIGTERM, pids)
    while _running(nodes, set().union(*roots)) and time.monotonic() < deadline:
        pause(0.05)


def _running(nodes: Sequence[LocalNode], roots: set[int]) -> bool:
    for process in (process for node in nodes for process in node.running):
        process.poll()  # takes note of those that ended
    return bool(family(roots, seen()))


def _become_node(processors: frozenset[int], runner: int) -> None:
    """In the child, before the program: take no more than was rented, and die with the runner."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != runner:
        os._exit(1)  # it died before we could ask to be told
    os.sched_setaffinity(0, processors)
    with suppress(OSError):
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(file, _OOM_SCORE)
        os.close(file)
