"""A node is a process group with its own cores, folder, log and environment, which dies with its supervisor."""

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

from mlcd.clouds.local.processes import Seen, family, seen
from mlcd.clouds.local.supervisor import SIGNALS
from mlcd.platforms.base import Node, Process

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = (
    b"500"  # should memory run out, the kernel ends the training rather than its supervisor or the desktop
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

    def start(self, processes: Sequence[Process]) -> None:
        """Start these in the place of those before."""
        self.running = []
        for process in processes:
            self.running.append(self._spawn(process.command, {**self.env, **process.env}))

    def exit_code(self) -> int | None:
        """The first code that is not 0, else 0 when all have ended, else None."""
        codes = [process.poll() for process in self.running]
        failed = next((code for code in codes if code), None)
        if failed is not None:
            return failed
        return 0 if all(code == 0 for code in codes) else None

    @property
    def roots(self) -> set[int]:
        """The processes that were started here."""
        return {process.pid for process in self.running}

    def family(self, everyone: list[Seen]) -> list[Seen]:
        """All processes of this node that still run."""
        return family(self.roots, everyone)

    def say(self, message: str) -> None:
        """Leave a line in the node's log."""
        with suppress(OSError), self.log.open("a") as log:
            log.write(f"[mlcd] {message}\n")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to everything that runs here."""
        for pid in self.roots:
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
    """SIGTERM, the grace, SIGKILL."""
    deadline = time.monotonic() + grace_seconds
    for node in nodes:
        node.signal(signal.SIGTERM)
    while _running(nodes) and time.monotonic() < deadline:
        pause(0.05)
    for node in nodes:
        node.signal(signal.SIGKILL)
        for process in node.running:
            with suppress(subprocess.TimeoutExpired):  # it waits for a device and cannot die
                process.wait(timeout=5.0)


def _running(nodes: Sequence[LocalNode]) -> bool:
    everyone = seen()
    for node in nodes:
        node.exit_code()  # takes note of those that ended
    return any(node.family(everyone) for node in nodes)


def _become_node(processors: frozenset[int], supervisor: int) -> None:
    """In the child, before the program: take no more than was rented, and die with the supervisor."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(1)  # it died before we could ask to be told
    os.sched_setaffinity(0, processors)
    with suppress(OSError):
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(file, _OOM_SCORE)
        os.close(file)
