"""What the runner of a task on this computer is told beside the rest; see tasks.files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlcd.clouds.tasks.files import Files, RunnerState, TaskSpec
from mlcd.core.task import TaskFolder


@dataclass(frozen=True)
class Spec(TaskSpec):
    """With what of this computer is for rent."""

    cores: tuple[int, ...]  # core for rent → processor
    gpus: tuple[str, ...]  # device ids that this kind of instance may use


State = RunnerState


@dataclass(frozen=True)
class TaskFiles(Files[Spec, State]):
    """The files of one task."""

    spec_kind = Spec
    state_kind = State


def copies_folder(folder: TaskFolder) -> Path:
    """Where the working copies are while the task lives."""
    return folder.root / "nodes"
