"""Checkpoints of programs that write to a folder of their own: committed, found again, put back.

The format is the worker's (see mlcd.worker): a folder <sequence>-<samples> with a manifest of sizes and hashes, named in
one atomic step. Whether the program or its cloud committed a checkpoint makes no difference to whoever resumes from it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from mlcd.worker import checkpoints as worker

QUIET_SECONDS = 1.0  # files unchanged for so long are taken to be finished
_THEIRS = "program-manifest.json"  # a file of the program that has the name of our manifest

Signature = frozenset[tuple[str, int, int]]  # name, size and time of change (ns) of every file


def commit(folder: Path, into: Path, samples: float, task_id: str = "") -> Path | None:
    """Commit a copy of the folder; None where there is nothing in it, or it changed while it was being copied."""
    before = signature(folder)
    if not before:
        return None
    partial = worker.begin(into)
    try:
        _copy(folder, partial, {worker.MANIFEST: _THEIRS})
        if signature(folder) != before:
            return None
        return worker.commit(partial, worker.Facts(samples=samples, task_id=task_id))
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # a committed one has another name by now


def newest_complete(checkpoints: Path) -> Path | None:
    """The newest checkpoint of which every byte is as it was committed."""
    found = worker.newest_intact(checkpoints)
    return found.path if found is not None else None


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
    _copy(checkpoint, into, {worker.MANIFEST: None, _THEIRS: worker.MANIFEST})


def prune(checkpoints: Path, keep: int) -> None:
    """Remove all but the newest complete ones; the last complete one always stays."""
    worker.prune(checkpoints, keep)


def signature(folder: Path) -> Signature:
    """What tells whether any file of the folder has changed."""
    entries = []
    for file in folder.rglob("*"):
        try:
            stat = file.stat()
        except OSError:  # gone meanwhile, or a link to nothing
            continue
        if file.is_file():
            entries.append((str(file.relative_to(folder)), stat.st_size, stat.st_mtime_ns))
    return frozenset(entries)


def changed_at(files: Signature) -> float:
    """When the newest of these files was last changed, in seconds since the epoch."""
    return max((changed for _, _, changed in files), default=0) / 1e9


def _copy(folder: Path, into: Path, rename: Mapping[str, str | None]) -> None:
    """Copy everything but what is renamed to None; links within the folder stay links, others become what they point to."""
    for entry in sorted(folder.rglob("*")):
        old = str(entry.relative_to(folder))
        name = rename.get(old, old)
        if name is None:
            continue
        target = into / name
        if entry.is_symlink() and not entry.readlink().is_absolute():
            target.symlink_to(entry.readlink())
        elif entry.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif entry.is_file():
            shutil.copy2(entry, target)
