"""Checkpoints on disk: complete or not there at all. The format is in mlcd.worker's docstring."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
_NAME = re.compile(r"(\d+)-(\d+)")
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Facts:
    """What a checkpoint is of."""

    samples: float  # of the whole job
    steps: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    task_id: str = ""
    told: tuple[float, float] = (0.0, 0.0)  # step and samples as the program itself counts them


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

    def has_all_files(self) -> bool:
        """Whether every file is there in its size."""
        return all(_size(self.path / name) == size for name, (size, _) in self.files.items())

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
    """The newest checkpoint that is as it was committed."""
    for found in complete_checkpoints(root):
        try:
            if found.is_intact():
                return found
        except OSError:  # unreadable is as good as broken: the next older one will do
            continue
    return None


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """What the folder's manifest says, or None if there is none that can be read."""
    try:
        data: Any = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        told = data.get("told", (0.0, 0.0))
        return Checkpoint(
            path=folder,
            sequence=int(data["sequence"]),
            facts=Facts(
                samples=float(data["samples"]),
                steps=int(data["steps"]),
                metrics=dict(data.get("metrics", {})),
                task_id=str(data.get("task_id", "")),
                told=(float(told[0]), float(told[1])),
            ),
            committed_at=float(data["committed_at"]),
            files={name: (int(one["bytes"]), str(one["sha256"])) for name, one in data["files"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def begin(root: Path) -> Path:
    """A new folder in which a checkpoint can be made; it does not count until it is committed."""
    root.mkdir(parents=True, exist_ok=True)
    partial = root / f".partial-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    partial.mkdir()
    return partial


def commit(partial: Path, facts: Facts) -> Path:
    """Make the folder that `begin` gave a checkpoint: all of it lasting on disk first, then its name in one step."""
    root = partial.parent
    files = {str(path.relative_to(partial)): path for path in sorted(partial.rglob("*")) if path.is_file()}
    entries = {name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for name, path in files.items()}
    for path in files.values():
        _sync(path)
    sequence = _last_sequence(root) + 1
    _write_manifest(partial, {"format": 1, "sequence": sequence, **_as_data(facts), "files": entries})
    for folder in [path for path in partial.rglob("*") if path.is_dir()]:
        _sync(folder)
    _sync(partial)
    target = root / f"{sequence:06d}-{int(facts.samples)}"
    partial.rename(target)
    _sync(root)
    return target


def prune(root: Path, keep: int) -> None:
    """Remove all but the newest complete checkpoints, and what processes that are gone left half made.

    What goes loses its name first, so that a kill in between leaves nothing that looks complete.
    """
    kept = {one.path for one in complete_checkpoints(root)[: max(1, keep)]}
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
        "told": list(facts.told),
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
    """Have it on disk, not only in the system's memory."""
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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
