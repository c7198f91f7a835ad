"""CPU share and memory of an environment, held by control groups where we may make them, else by hand.

    1,769 MB = one vCPU, as at Lambda; all of it times a scale, so that many functions fit on few cores

By hand: a duty cycle stops and continues the environment's processes (SIGSTOP, SIGCONT) so that their CPU time stays
within the share. The memory watch is pool.py's, for both; a control group's limit is there for what grows faster
than it looks.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

MB_PER_VCPU = 1769.0
_GROUPS = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000
_LEAST_QUOTA_US = 1000
_SLACK_BYTES = 64 << 20
_TICK_SECONDS = 0.01
_BURST_SECONDS = 0.1


def vcpus(memory_mb: int) -> float:
    """The CPU share that comes with a memory size."""
    return memory_mb / MB_PER_VCPU


class Limits(Protocol):
    """Holds environments to their share."""

    def confine(self, name: str, pid: int, vcpus: float, memory_bytes: int) -> None:
        """Hold this process and its descendants to the share from now on."""
        ...

    def release(self, name: str) -> None:
        """Nothing of it runs any more."""
        ...


def open_limits(mark: str, family: Callable[[int], list[int]]) -> Limits:
    """Control groups if this user may make them, else the duty cycle."""
    with suppress(OSError):
        return ControlGroups(mark)
    return DutyCycle(family)


class ControlGroups:
    """Groups named after the service, version 1 or 2."""

    def __init__(self, mark: str, root: Path = _GROUPS) -> None:
        self._mark = mark
        self._unified = (root / "cgroup.controllers").is_file()
        self._parents = [root] if self._unified else [root / "cpu", root / "memory"]
        probe = self._folders("probe")
        try:
            for folder in probe:
                folder.mkdir()
            self._limit(probe, 1.0, 1 << 30)
        finally:
            self.release("probe")

    def confine(self, name: str, pid: int, vcpus: float, memory_bytes: int) -> None:
        folders = self._folders(name)
        for folder in folders:
            folder.mkdir(exist_ok=True)
        self._limit(folders, vcpus, memory_bytes + _SLACK_BYTES)
        for folder in folders:
            with suppress(ProcessLookupError):
                (folder / "cgroup.procs").write_text(str(pid))

    def release(self, name: str) -> None:
        _remove(self._folders(name))

    def _folders(self, name: str) -> list[Path]:
        return [parent / f"{self._mark}-{name}" for parent in self._parents]

    def _limit(self, folders: list[Path], vcpus: float, memory_bytes: int) -> None:
        quota_us = max(_LEAST_QUOTA_US, int(vcpus * _PERIOD_US))
        if self._unified:
            (folders[0] / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
            (folders[0] / "memory.max").write_text(str(memory_bytes))
        else:
            (folders[0] / "cpu.cfs_quota_us").write_text(str(quota_us))
            (folders[1] / "memory.limit_in_bytes").write_text(str(memory_bytes))


def remove_groups(mark: str, root: Path = _GROUPS) -> None:
    """Remove every group of a service that is gone, with nothing left in them."""
    for parent in (root, root / "cpu", root / "memory"):
        _remove(list(parent.glob(f"{mark}-*")))


def _remove(folders: list[Path]) -> None:
    """A group can be removed a moment after its last process was."""
    deadline = time.monotonic() + 2.0
    left = folders
    while left and time.monotonic() < deadline:
        for folder in left:
            with suppress(OSError):
                folder.rmdir()
        left = [folder for folder in left if folder.is_dir()]
        if left:
            time.sleep(0.02)


class DutyCycle:
    """A token bucket of CPU time for each environment; when it is empty, its processes are stopped for a while."""

    def __init__(self, family: Callable[[int], list[int]]) -> None:
        self._family = family
        self._buckets: dict[str, _Bucket] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="duty", daemon=True).start()

    def confine(self, name: str, pid: int, vcpus: float, memory_bytes: int) -> None:
        with self._lock:
            self._buckets[name] = _Bucket(pid, vcpus)

    def release(self, name: str) -> None:
        with self._lock:
            self._buckets.pop(name, None)

    def _run(self) -> None:
        while True:
            with self._lock:
                buckets = list(self._buckets.values())
            for bucket in buckets:
                bucket.turn(self._family)
            time.sleep(_TICK_SECONDS if buckets else 0.2)


class _Bucket:
    """CPU seconds that may be used now: filled by time, emptied by use."""

    def __init__(self, root: int, vcpus: float) -> None:
        self._root = root
        self._vcpus = vcpus
        self._tokens = 0.0
        self._used: float | None = None
        self._at = time.monotonic()
        self._stopped = False
        self._pids: list[int] = []
        self._looked_at = 0.0

    def turn(self, family: Callable[[int], list[int]]) -> None:
        """Count what was used since the last turn, and stop or continue accordingly."""
        now = time.monotonic()
        if now - self._looked_at > 0.3:
            self._pids, self._looked_at = family(self._root), now
            self._used = None  # others than before: count anew from here
        used = sum(_cpu_seconds(pid) for pid in self._pids)
        spent = max(0.0, used - self._used) if self._used is not None else 0.0
        self._tokens = min(self._tokens + self._vcpus * (now - self._at), self._vcpus * _BURST_SECONDS) - spent
        self._used, self._at = used, now
        self._signal(self._tokens <= 0)

    def _signal(self, stop: bool) -> None:
        if stop == self._stopped and not stop:
            return
        for pid in self._pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP if stop else signal.SIGCONT)
        self._stopped = stop


def _cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, to the nanosecond."""
    total = 0
    with suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, ValueError, IndexError):
                total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9
