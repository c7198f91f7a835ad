"""Processes as the kernel sees them, read from /proc in one pass: cheap enough to look twice a second."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MARKER = "MLCD_LOCAL_TASK"  # in the environment of every process of a task: its folder
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_PF_EXITING = 0x4  # among the kernel's flags of a process, see proc(5)
_SIGKILL_BIT = 1 << (signal.SIGKILL - 1)
_EXEC_SECONDS = 1.0  # the longest that a process is waited for which replaces its program


@dataclass(frozen=True)
class ProcessInfo:
    """One process at one moment."""

    pid: int
    parent: int
    session: int
    cpu_seconds: float  # its own and those of its ended children
    memory_bytes: int


def birth(pid: int) -> str:
    """When a living process began, exact to the tick and the boot; empty when there is none."""
    ticks = _start_ticks(pid)
    return "" if ticks is None else f"{boot()}/{ticks}"


def started_seconds(pid: int) -> float | None:
    """How long after the boot a living process began, exact to the tick; None when there is none."""
    ticks = _start_ticks(pid)
    return None if ticks is None else ticks / _TICKS_PER_SECOND


def alive(pid: int, born: str) -> bool:
    """Whether the process that was born then still lives."""
    return bool(born) and birth(pid) == born


def seen() -> list[ProcessInfo]:
    """All processes of this computer that still run."""
    rows = ((pid, _stat(pid)) for pid in _pids())
    return [_read(pid, fields) for pid, fields in rows if fields and fields[0] not in "ZX"]


def family(roots: set[int], everyone: list[ProcessInfo]) -> list[ProcessInfo]:
    """These processes, all that share a session with them, and all their descendants."""
    members = {process.pid for process in everyone if process.pid in roots or process.session in roots}
    members |= _below(members, everyone)
    return [process for process in everyone if process.pid in members]


def end_descendants(root: int, patience_seconds: float = 5.0) -> bool:
    """Kill all that a process started, and what those started; whether none was left when patience ran out.

    The root should take in orphans (PR_SET_CHILD_SUBREAPER): what loses its parent is then still below it.
    """
    return _end_all(lambda: _below({root}, seen()), patience_seconds)


def private_bytes(pid: int) -> int:
    """A process's memory with shared pages divided among those who share them; 0 when it is gone."""
    with suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def command_line(pid: int) -> list[str]:
    """The words that a process was started with; none when it has ended."""
    return _laid_out(pid, "cmdline").decode(errors="replace").split("\0")[:-1]


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
    return _end_all(lambda: marked(folder), patience_seconds)


def open_for_writing(pids: set[int], folder: Path) -> frozenset[str]:
    """The files below a folder that these processes have open for writing, as far as the kernel shows it."""
    start = f"{folder.resolve()}{os.sep}"
    found = {name for pid in pids for name in _written_by(pid, start)}
    return frozenset(found)


def oom_kills() -> int | None:
    """How many processes the kernel has killed for want of memory since it started; None: it does not say."""
    with suppress(OSError):
        for line in (_PROC / "vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


@cache
def boot() -> str:
    """The id of this computer's present boot."""
    with suppress(OSError):
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ""


def _below(roots: set[int], everyone: list[ProcessInfo]) -> set[int]:
    """All that these started, and what those started, in whatever session."""
    found: set[int] = set()
    while young := {row.pid for row in everyone if row.parent in roots | found} - roots - found:
        found |= young
    return found


def _end_all(find: Callable[[], Collection[int]], patience_seconds: float) -> bool:
    """Kill again and again all that is found; whether nothing was left when patience ran out."""
    deadline = time.monotonic() + patience_seconds
    while pids := find():
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _start_ticks(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[19]) if fields and not _is_ending(fields) else None


def _is_ending(fields: list[str]) -> bool:
    """Whether a process is dead or dying: right after SIGKILL it is still listed, but runs no line more."""
    exiting, killed = int(fields[6]) & _PF_EXITING, int(fields[28]) & _SIGKILL_BIT
    return fields[0] in "ZX" or bool(exiting or killed)


def _written_by(pid: int, start: str) -> list[str]:
    names = []
    for number in _listed(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115  # by the hundred
            if target.startswith(start) and _writes(f"/proc/{pid}/fdinfo/{number}"):
                names.append(target[len(start) :])
        except OSError:  # closed meanwhile
            continue
    return names


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  # names alone
    except OSError:  # it has ended, or is another user's
        return []


def _writes(info: str) -> bool:
    """Whether a descriptor writes; one that only appends is a log's, which has no end to wait for."""
    text = _content(info).decode(errors="replace")
    flags = next((int(line.split()[1], 8) for line in text.splitlines() if line.startswith("flags:")), 0)
    return flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR) and not flags & os.O_APPEND


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir(_PROC) if name.isdigit())  # noqa: PTH208  names alone, five times a second


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the third on; the second, the name, may hold anything."""
    text = _content(f"/proc/{pid}/stat").decode(errors="replace")
    return text[text.rindex(")") + 2 :].split() if text else []


def _read(pid: int, fields: list[str]) -> ProcessInfo:
    return ProcessInfo(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        cpu_seconds=sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_SECOND,
        memory_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def _environment(pid: int) -> list[bytes]:
    return _laid_out(pid, "environ").split(b"\0")


def _laid_out(pid: int, file: str) -> bytes:
    """What a process was started with. It shows nothing for a moment while it replaces its program: that is waited for."""
    path, give_up_at, laid_out = f"/proc/{pid}/{file}", time.monotonic() + _EXEC_SECONDS, False
    while not (content := _content(path)) and not laid_out and time.monotonic() < give_up_at:
        laid_out = not _replaces_its_program(pid)  # then it is read once more: it may have ended in between
        time.sleep(0.0 if laid_out else 0.001)
    return content


def _replaces_its_program(pid: int) -> bool:
    """Whether it is between two programs (execve): it has memory, and the kernel does not know yet where its environment ends.

    Whoever starts a program hears so before the kernel has laid its environment out.
    """
    fields = _stat(pid)
    if not fields or _is_ending(fields) or not _may_be_read(pid):
        return False
    memory_bytes, environment_end = int(fields[20]), int(fields[48])
    return memory_bytes > 0 and environment_end == 0


def _may_be_read(pid: int) -> bool:
    """Whether the kernel shows us where its environment is: of whom we may not trace it says 0, for ever."""
    try:
        os.close(os.open(f"/proc/{pid}/environ", os.O_RDONLY))
    except OSError:
        return False
    return True


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
