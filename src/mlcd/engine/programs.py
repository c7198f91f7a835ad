"""When two jobs are of the same program, and when they are the same training.

The same program: the same command with the same variables and mounts, on the same platform, of the same owner (on a
replayed cloud: the same recording), in a folder of the same content, or in the very same folder whose files have
changed since. The same training: moreover the same content and the same target.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from mlcd.core.records import JobRecord
from mlcd.core.scripts import first_script
from mlcd.core.serial import to_data

CODE_BYTES = 1 << 20  # a larger file is data: its name and size stand for it
MOST_FILES = 10_000
_PASSED_OVER = frozenset({"__pycache__", "node_modules"})


def same_program(one: JobRecord, other: JobRecord) -> bool:
    """Whether what was learnt of the one says something of the other."""
    here = one.job.workdir == other.job.workdir
    return _command(one) == _command(other) and (here or (one.code != "" and one.code == other.code))


def similar_program(one: JobRecord, other: JobRecord) -> bool:
    """Whether the same script runs with other arguments or variables, on the same data."""
    here, there = first_script(one.job.run), first_script(other.job.run)
    same_place = one.job.workdir == other.job.workdir or (one.code != "" and one.code == other.code)
    return here is not None and here == there and same_place and _conditions(one) == _conditions(other)


def likeness(one: JobRecord, other: JobRecord) -> str:
    """In which way the programs are the same."""
    if has_changed(one, other):
        return "the same program, with files that have changed since"
    return "the same program"


def has_changed(one: JobRecord, other: JobRecord) -> bool:
    """Whether the files of the same program are others now."""
    return bool(one.job.workdir) and one.code != other.code


def fingerprint(record: JobRecord) -> str:
    """Equal for two jobs that are the same training."""
    until = record.job.work.until if record.job.work else None
    place = record.code or record.job.workdir
    parts = [_command(record), place, None if until is None else to_data(until)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def digest_of(workdir: str) -> str:
    """Of names and contents below the program's folder; empty for a job without one."""
    if not workdir:
        return ""
    digest = hashlib.sha256()
    for number, file in enumerate(_files(Path(workdir))):
        if number == MOST_FILES:
            break
        digest.update(f"{file.relative_to(workdir)}\0".encode(errors="replace"))
        digest.update(_content(file))
    return digest.hexdigest()[:32]


def _command(record: JobRecord) -> tuple[object, ...]:
    place, mounts = _conditions(record)
    return (record.job.run, *place, sorted(record.job.envs.items()), mounts)


def _conditions(record: JobRecord) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """What a program runs on, but for its arguments and variables."""
    job, options = record.job, record.cloud_options
    names = (job.platform, record.owner, options.get("trace", ""), options.get("workload", ""))
    return names, sorted(job.file_mounts.items())


def _files(folder: Path) -> Iterator[Path]:
    """In the same order everywhere; hidden folders, such as .git and .venv, are no part of the program."""
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _PASSED_OVER and not name.startswith("."))
        yield from (Path(root, name) for name in sorted(names))


def _content(file: Path) -> bytes:
    try:
        size = file.stat().st_size
        return file.read_bytes() if size <= CODE_BYTES else str(size).encode()
    except OSError:  # a dangling link, or gone meanwhile
        return b""
