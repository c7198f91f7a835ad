"""What a supervisor is told of its task, and what it tells; see tasks.files for the folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlcd.clouds.tasks.files import Files, task_root
from mlcd.core.machines import Deployment
from mlcd.core.progress import Usage
from mlcd.core.task import Task, TaskFolder, TaskState


@dataclass(frozen=True)
class Spec:
    """All that a supervisor is told, but for the secrets."""

    task: Task
    deployment: Deployment
    home: str  # the cloud's own folder, shared by all tasks
    cores: tuple[int, ...]  # core for rent → processor
    gpus: tuple[str, ...]  # device ids that this kind of instance may use
    launched_at: float


@dataclass(frozen=True)
class State:
    """How a task stands, in its supervisor's words."""

    pid: int
    birth: str  # of that process, so that a reused pid is not mistaken for it
    state: TaskState = TaskState.STARTING
    seen_at: float = 0.0  # the supervisor's last sign of life
    started_at: float | None = None
    setup_at: float | None = None
    running_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    exit_codes: tuple[int | None, ...] = ()  # of each node
    reason: str = ""
    failed_node: int = 0
    usage: Usage = Usage()


@dataclass(frozen=True)
class TaskFiles(Files[Spec, State]):
    """The files of one task, with what its supervisor is told and tells."""

    spec_kind = Spec
    state_kind = State


def task_files(home: Path, task_id: str) -> TaskFiles:
    """Where a task's files are, whether or not there are any."""
    return TaskFiles(task_root(home, task_id))


def copies_folder(folder: TaskFolder) -> Path:
    """Where the working copies are while the task lives."""
    return folder.root / "nodes"
