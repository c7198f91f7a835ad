"""Limits hosts to their shares of the CPU, in a process of its own.

What a training shows depends on it: a host that is let go for five seconds is measured twenty times too fast. As a thread
beside those that answer the API, this was seen to come up to five seconds late.

Started as `python -m mlcd_emulate.shares NAME`, where NAME is that of the emulation's control groups. Each line of its
standard input is a host to look after, or to leave alone; it ends with its input, and so with whoever started it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TextIO

from mlcd.errors import CloudError
from mlcd_emulate.cgroups import Cgroups, open_cgroups
from mlcd_emulate.credits import CpuCredit

STEP_S = 0.1
_PRIORITY = 1  # the lowest in real time: before everything that has none


class Shares:
    """The process, for those who start and end hosts."""

    def __init__(self, groups: str) -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-m", __name__, groups),
            stdin=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()

    def hold(self, host: str, cores: float, slowed: float = 1.0) -> None:
        """Hold a host to so many cores, divided by so much; from now on, or otherwise than before."""
        self._send({"host": host, "cores": cores, "slowed": slowed})

    def forget(self, host: str) -> None:
        """Leave a host alone that is about to go, whether anyone looks after it or not."""
        with suppress(CloudError):
            self._send({"host": host})

    def close(self) -> None:
        """End the process."""
        with self._lock, suppress(BrokenPipeError):
            self._process.communicate()

    def _send(self, command: dict[str, str | float]) -> None:
        assert self._process.stdin is not None
        try:
            with self._lock:
                self._process.stdin.write(json.dumps(command) + "\n")
                self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:  # it was killed, or closed
            raise CloudError("The process that limits the hosts to their shares of the CPU has ended.") from error


@dataclass
class LimitedHost:
    """A host that is held to its share, beyond its credit."""

    name: str
    cgroups: Cgroups
    cores: float
    slowed: float = 1.0
    credit: CpuCredit = field(default_factory=lambda: CpuCredit(seen_at=time.monotonic()))
    _limit: float | None = None  # what its CPU is limited to
    _sessions: dict[int, int] = field(default_factory=dict)  # process → its session, when last seen

    def tick(self, now: float) -> None:
        """Spend and earn credit, and hold the host to its share."""
        used_s, memory_mib = self.cgroups.used_cpu_s(self.name), self.cgroups.used_memory_mib(self.name)
        credit = self.credit.after(used_s, now, self.cores, memory_mib)
        self.credit = credit.anew() if self.session_begun() else credit
        free = self.credit.lifted and self.slowed == 1  # no credit makes up for being slowed
        limit = None if free else self.cores / self.slowed
        if limit != self._limit:
            self.cgroups.limit_cpu(self.name, limit)
            self._limit = limit

    def session_begun(self) -> bool:
        """Whether something was started that stands by itself since the last time: a login, an agent, a program."""
        known = set(self._sessions.values())
        alive = self.cgroups.processes(self.name)
        self._sessions = {pid: self._sessions.get(pid) or _session_of(pid) for pid in alive}
        return not set(self._sessions.values()) <= known | {0}


def _session_of(pid: int) -> int:
    """The session that a process belongs to; 0: it has ended."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


class _ShareLimiter:
    """Looks at every host in turn, until its input ends."""

    def __init__(self, cgroups: Cgroups) -> None:
        self._cgroups = cgroups
        self._held: dict[str, LimitedHost] = {}
        self._ended = threading.Event()

    def run(self, commands: TextIO) -> None:
        threading.Thread(target=self._listen, args=(commands,), daemon=True).start()
        _go_first()  # this thread alone; the other waits
        while not self._ended.wait(STEP_S):
            for host in list(self._held.values()):
                with suppress(OSError):  # it is about to go
                    host.tick(time.monotonic())

    def _listen(self, commands: TextIO) -> None:
        for line in commands:
            given = json.loads(line)
            if "cores" not in given:
                self._held.pop(given["host"], None)
                continue
            held = self._held.setdefault(given["host"], LimitedHost(given["host"], self._cgroups, given["cores"]))
            held.slowed = given["slowed"]
        self._ended.set()


def _go_first() -> None:
    """Have one's turn whenever it has come, however busy the computer is."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))
    except OSError:  # not allowed here
        os.setpriority(os.PRIO_PROCESS, 0, -20)


def main() -> None:
    """Run the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its input
    _ShareLimiter(open_cgroups(sys.argv[1])).run(sys.stdin)


if __name__ == "__main__":
    main()
