"""Checkpoints on disk: complete or not there at all. The format is in mlcd.worker's docstring."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlcd.worker.names import is_inner
from mlcd.worker.trees import files_inside, is_file_inside

MANIFEST = "manifest.json"
MOST_MANIFEST_BYTES = 16 << 20  # of one that somebody else made
REFUSED = ".mlcd-refused"  # in a checkpoint that a program could not start from: the id of its task
FEWEST = 2  # to keep, whatever the setting: the newest may turn out not to load
_NAME = re.compile(r"(\d+)-(\d+)")
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Facts:
    """What a checkpoint is of."""

    samples: float  # of the whole job
    steps: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    task_id: str = ""
    reported: tuple[float, float] = (0.0, 0.0)  # step and samples as the program itself counts them


@dataclass(frozen=True)
class Checkpoint:
    """A committed checkpoint."""

    path: Path
    sequence: int
    facts: Facts
    committed_at: float
    files: dict[str, tuple[int, str]]  # bytes, sha256

    @property
    def bytes(self) -> int:
        """Size of all its files."""
        return sum(size for size, _ in self.files.values())

    @property
    def refused_by(self) -> str:
        """The task whose program could not start from it; empty: none is known."""
        try:
            return (self.path / REFUSED).read_text(encoding="utf-8")
        except OSError:
            return ""

    def has_all_files(self) -> bool:
        """Whether every file is there in its size."""
        root = Path(os.path.realpath(self.path))
        return all(_size(self.path / name, root) == size for name, (size, _) in self.files.items())

    def is_intact(self) -> bool:
        """Whether every file is there with its content, byte for byte."""
        return self.has_all_files() and all(
            _sha256(self.path / name) == digest for name, (_, digest) in self.files.items()
        )


def complete_checkpoints(root: Path) -> list[Checkpoint]:
    """The checkpoints whose files are all there, newest first; their content is not read."""
    try:
        folders = [path for path in root.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return []
    found = [read_checkpoint(folder) for folder in folders]
    complete = [one for one in found if one is not None and one.has_all_files()]
    return sorted(complete, key=lambda one: one.sequence, reverse=True)


def newest_intact(root: Path) -> Checkpoint | None:
    """The newest checkpoint that is as it was committed, and that no program failed to start from."""
    for found in complete_checkpoints(root):
        try:
            if not found.refused_by and found.is_intact():
                return found
        except OSError:  # unreadable is as good as broken: the next older one will do
            continue
    return None


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """What the folder's manifest says, or None if there is none that can be read."""
    try:
        data: Any = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        step, samples = data.get("told", (0.0, 0.0))
        if not _is_sound(data):
            return None
        return Checkpoint(
            path=folder,
            sequence=int(data["sequence"]),
            facts=Facts(
                samples=float(data["samples"]),
                steps=int(data["steps"]),
                metrics=dict(data.get("metrics", {})),
                task_id=str(data.get("task_id", "")),
                reported=(float(step), float(samples)),
            ),
            committed_at=float(data["committed_at"]),
            files={name: (int(one["bytes"]), str(one["sha256"])) for name, one in data["files"].items()},
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _is_sound(data: Any) -> bool:
    """Whether its names stay within the folder and its counts are counts: a program may have made it up."""
    named = all(is_inner(name) and name != MANIFEST for name in data["files"])
    return named and math.isfinite(float(data["samples"])) and int(data["sequence"]) >= 0


def begin(root: Path) -> Path:
    """A new folder in which a checkpoint can be made; it does not count until it is committed."""
    root.mkdir(parents=True, exist_ok=True)
    partial = root / f".partial-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    partial.mkdir()
    return partial


def commit(partial: Path, facts: Facts) -> Path:
    """Make the folder that `begin` gave a checkpoint: all of it lasting on disk first, then its name in one step."""
    root = partial.parent
    _copy_linked_files(partial)
    files = {str(path.relative_to(partial)): path for path in files_inside(partial)}
    entries = {name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for name, path in files.items()}
    for path in files.values():
        _sync(path)
    sequence = _last_sequence(root) + 1
    _write_manifest(partial, {"format": 1, "sequence": sequence, **_as_data(facts), "files": entries})
    for folder in [path for path in partial.rglob("*") if path.is_dir() and not path.is_symlink()]:
        _sync(folder)
    _sync(partial)
    target = root / f"{sequence:06d}-{int(facts.samples)}"
    partial.rename(target)
    _sync(root)
    return target


def refuse(checkpoint: Checkpoint, task_id: str) -> None:
    """Mark a checkpoint that the program of a task could not start from; the one before is the newest then."""
    draft = checkpoint.path / f"{REFUSED}.part"
    draft.write_text(task_id, encoding="utf-8")
    _sync(draft)
    draft.rename(checkpoint.path / REFUSED)
    _sync(checkpoint.path)


def accept_all(root: Path) -> None:
    """Remove all marks: the failure had another cause."""
    for found in complete_checkpoints(root):
        (found.path / REFUSED).unlink(missing_ok=True)


def prune(root: Path, keep: int) -> None:
    """Remove all but the newest complete checkpoints, and what processes that are gone left half made.

    Two at least are kept that no program failed to start from. What goes loses its name first, so that a kill in between
    leaves nothing that looks complete.
    """
    good = [one.path for one in complete_checkpoints(root) if not one.refused_by]
    kept = set(good[: max(FEWEST, keep)])
    oldest = min((int(path.name.split("-")[0]) for path in kept), default=0)
    for path in list(root.iterdir()):
        named = _NAME.fullmatch(path.name)
        if named and path not in kept and int(named[1]) < oldest:
            path = path.rename(root / f".old-{path.name}-{uuid.uuid4().hex[:8]}")
        if path.name.startswith(".old-") or _is_abandoned(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    """Whether this was never committed and the process that made it is gone."""
    match = re.match(r"\.partial-(\d+)-", path.name)
    try:
        if match:
            os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it lives, and is not ours
        return False
    return False


def _as_data(facts: Facts) -> dict[str, Any]:
    return {
        "samples": facts.samples,
        "steps": facts.steps,
        "metrics": facts.metrics,
        "task_id": facts.task_id,
        "told": list(facts.reported),
        "committed_at": time.time(),
    }


def _last_sequence(root: Path) -> int:
    matches = [_NAME.fullmatch(path.name) for path in root.iterdir()]
    return max((int(match[1]) for match in matches if match), default=0)


def _write_manifest(folder: Path, data: dict[str, Any]) -> None:
    part = folder / (MANIFEST + ".part")
    part.write_text(json.dumps(data, indent=1), encoding="utf-8")
    _sync(part)
    part.rename(folder / MANIFEST)


def _sync(path: Path) -> None:
    """Write it to disk, not only to the system's cache."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for chunk in iter(lambda: stream.read(_CHUNK_BYTES), b""):
            digest.update(chunk)
    return digest.hexdigest()


def _size(path: Path, root: Path) -> int:
    """Of a file within the checkpoint; -1: there is none."""
    try:
        return path.stat().st_size if is_file_inside(path, root) else -1
    except OSError:
        return -1


def _copy_linked_files(partial: Path) -> None:
    """Replace links out of the checkpoint by copies: the files that they point to may change later."""
    root = Path(os.path.realpath(partial))
    for path in list(partial.rglob("*")):
        if path.is_symlink() and path.is_file() and not is_file_inside(path, root):
            draft = path.with_name(f".{uuid.uuid4().hex}")
            shutil.copy2(path, draft)
            draft.replace(path)
