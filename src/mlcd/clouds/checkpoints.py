"""Checkpoints of programs that write to a folder of their own: committed, found again, put back.

The format is the worker's (see mlcd.worker): a folder <sequence>-<samples> with a manifest of sizes and hashes, named in
one atomic step. Whether the program or its cloud committed a checkpoint makes no difference to whoever resumes from it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlcd.worker import checkpoints as worker
from mlcd.worker.trees import copy_inside, files_inside

QUIET_SECONDS = 1.0  # files unchanged for so long are taken to be finished
_THEIRS = "program-manifest.json"  # a file of the program that has the name of our manifest

Signature = frozenset[tuple[str, int, int]]  # name, size and time of change (ns) of every file


@dataclass(frozen=True)
class Trained:
    """How much of the whole job was done at a moment."""

    samples: float
    known: bool = True  # else the program may still tell, and this is the least that it was


def commit(
    folder: Path,
    into: Path,
    samples: float,
    task_id: str = "",
    files: Signature | None = None,
    logs: frozenset[str] = frozenset(),
    left_out: Callable[[list[str]], None] = lambda names: None,
) -> Path | None:
    """Commit a copy of the folder; None where it is empty, or not as it was seen to the end of copying.

    Logs, which are written to all the time, may change meanwhile. What leads out of the folder or is no file is not in
    the copy, and told to `left_out`.
    """
    before = signature(folder) if files is None else files
    if not before:
        return None
    partial = worker.begin(into)
    try:
        astray = copy_inside(folder, partial, {worker.MANIFEST: _THEIRS})
        if _without(logs, signature(folder)) != _without(logs, before):
            return None
        if astray:
            left_out(astray)
        return worker.commit(partial, worker.Facts(samples=samples, task_id=task_id))
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # a committed one has another name by now


def newest_complete(checkpoints: Path) -> Path | None:
    """The newest checkpoint of which every byte is as it was committed."""
    found = worker.newest_intact(checkpoints)
    return found.path if found is not None else None


@contextmanager
def downloaded(
    fetch: Callable[[str, Path, int], None],
    into: Path,
    wanted: Callable[[worker.Checkpoint], bool] = lambda manifest: True,
) -> Iterator[worker.Checkpoint | None]:
    """A checkpoint that comes from elsewhere, until it is given its name; None: unwanted by its manifest, or not whole.

    `fetch(file, target, size)` copies a file of it here, and no more of it than its size.
    """
    partial = worker.begin(into)
    try:
        fetch(worker.MANIFEST, partial / worker.MANIFEST, worker.MOST_MANIFEST_BYTES)
        found = worker.read_checkpoint(partial)
        found = found if found is not None and wanted(found) else None
        for file, (size, _) in found.files.items() if found is not None else ():
            (partial / file).parent.mkdir(parents=True, exist_ok=True)
            fetch(file, partial / file, size)
        yield found if found is not None and found.is_intact() else None
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # one that was given its name is no longer there


def is_here(checkpoints: Path, name: str) -> bool:
    """Whether a checkpoint has come home; one that was set aside does not count, for the program may make it anew."""
    found = worker.read_checkpoint(checkpoints / name)
    return found is not None and not found.refused_by


def put_in_place(partial: Path, target: Path) -> None:
    """Give a checkpoint that has come home its name, in the place of one that was set aside."""
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


def samples_of(checkpoint: Path) -> float:
    """Samples of the whole job that went into a checkpoint; 0 where there is none."""
    found = worker.read_checkpoint(checkpoint)
    return found.facts.samples if found is not None else 0.0


def restore(checkpoint: Path, into: Path) -> None:
    """Put a checkpoint's files back to where the program looks for them, in the place of what is there."""
    if into.is_symlink() or into.is_file():
        into.unlink()
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True, exist_ok=True)
    copy_inside(checkpoint, into, {worker.MANIFEST: None, worker.REFUSED: None, _THEIRS: worker.MANIFEST})


def prune(checkpoints: Path, keep: int) -> None:
    """Remove all but the newest complete ones; the last two always stay."""
    worker.prune(checkpoints, keep)


def signature(folder: Path) -> Signature:
    """What tells whether any file of the folder has changed."""
    entries = []
    for file in files_inside(folder):
        try:
            stat = file.stat()
        except OSError:  # gone meanwhile
            continue
        entries.append((str(file.relative_to(folder)), stat.st_size, stat.st_mtime_ns))
    return frozenset(entries)


def _without(names: frozenset[str], files: Signature) -> Signature:
    return frozenset(entry for entry in files if entry[0] not in names)


def changed_at(files: Signature) -> float:
    """When the newest of these files was last changed, in seconds since the epoch."""
    return max((changed for _, _, changed in files), default=0) / 1e9
