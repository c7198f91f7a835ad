"""Processes as the kernel sees them, read from /proc in one pass: cheap enough to look twice a second."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MARKER = "MLCD_LOCAL_TASK"  # in the environment of every process of a task: its folder
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True)
class Seen:
    """One process at one moment."""

    pid: int
    parent: int
    session: int
    cpu_seconds: float  # its own and those of its ended children
    memory_bytes: int


def birth(pid: int) -> str:
    """When a living process began, exact to the tick and the boot; empty when there is none."""
    fields = _stat(pid)
    return f"{_boot()}/{fields[19]}" if fields and fields[0] not in "ZX" else ""


def alive(pid: int, born: str) -> bool:
    """Whether the process that was born then still lives."""
    return bool(born) and birth(pid) == born


def seen() -> list[Seen]:
    """All processes of this computer that still run."""
    rows = ((pid, _stat(pid)) for pid in _pids())
    return [_read(pid, fields) for pid, fields in rows if fields and fields[0] not in "ZX"]


def family(roots: set[int], everyone: list[Seen]) -> list[Seen]:
    """These processes, all that share a session with them, and all their descendants."""
    members = {process.pid for process in everyone if process.pid in roots or process.session in roots}
    grown = True
    while grown:
        young = {row.pid for row in everyone if row.parent in members and row.pid not in members}
        members |= young
        grown = bool(young)
    return [process for process in everyone if process.pid in members]


def private_bytes(pid: int) -> int:
    """A process's memory with shared pages divided among those who share them; 0 when it is gone."""
    with suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def marked(folder: Path) -> list[int]:
    """The processes that belong to the task with this folder, however they were started."""
    entry = f"{MARKER}={folder}".encode()
    return [pid for pid in _pids() if entry in _environment(pid)]


def marked_tasks(parent: Path) -> set[Path]:
    """The folders, within this parent, of all tasks that have a living process."""
    start = f"{MARKER}={parent}/".encode()
    skip = len(MARKER) + 1
    entries = (entry for pid in _pids() for entry in _environment(pid) if entry.startswith(start))
    return {Path(os.fsdecode(entry[skip:])) for entry in entries}


def end_marked(folder: Path, patience_seconds: float = 1.0) -> bool:
    """Kill every process of a task; whether none was left when patience ran out."""
    deadline = time.monotonic() + patience_seconds
    while pids := marked(folder):
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def oom_kills() -> int | None:
    """How many processes the kernel has killed for want of memory since it started; None: it does not say."""
    with suppress(OSError):
        for line in (_PROC / "vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir(_PROC) if name.isdigit())  # noqa: PTH208  names alone, five times a second


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the third on; the second, the name, may hold anything."""
    text = _content(f"/proc/{pid}/stat").decode(errors="replace")
    return text[text.rindex(")") + 2 :].split() if text else []


def _read(pid: int, fields: list[str]) -> Seen:
    return Seen(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        cpu_seconds=sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_SECOND,
        memory_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def _environment(pid: int) -> list[bytes]:
    return _content(f"/proc/{pid}/environ").split(b"\0")


def _content(file: str) -> bytes:
    """A small file by the shortest way: these are read by the hundred, twice a second. Nothing when it is gone."""
    try:
        handle = os.open(file, os.O_RDONLY)
    except OSError:
        return b""
    try:
        parts = iter(lambda: os.read(handle, 65536), b"")
        return b"".join(parts)
    except OSError:  # it went while it was read, or is another user's
        return b""
    finally:
        os.close(handle)


@cache
def _boot() -> str:
    with suppress(OSError):
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ""
