"""The folder by which a task is found: what was asked for, how it stands, and who looks after it.

home/local/tasks/<task id>/
    lock         held by the launching process, then by the supervisor, for as long as it lives
    spec.json    the task and its deployment, without secrets
    state.json   how it stands; there from the moment that the supervisor took over
    stop         there when the task shall end
    supervisor.log
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote

from mlcd.core.machines import Deployment
from mlcd.core.progress import Usage
from mlcd.core.serial import from_json, to_json
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
class TaskFiles:
    """The files of one task in the cloud's own folder."""

    root: Path

    @property
    def id(self) -> str:
        """The task's id, which is also its handle."""
        return unquote(self.root.name)

    @property
    def lock(self) -> Path:
        """Whoever holds it may start the task."""
        return self.root / "lock"

    @property
    def stop(self) -> Path:
        """There when the task shall end."""
        return self.root / "stop"

    @property
    def log(self) -> Path:
        """What the supervisor itself has to say."""
        return self.root / "supervisor.log"

    def read_spec(self) -> Spec | None:
        """What was asked for; None: nothing by this name."""
        try:
            return from_json(Spec, (self.root / "spec.json").read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_spec(self, spec: Spec) -> None:
        """Keep what was asked for."""
        write_atomically(self.root / "spec.json", to_json(spec))

    def read_state(self) -> State | None:
        """How it stands; None: no supervisor took over yet."""
        try:
            return from_json(State, (self.root / "state.json").read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_state(self, state: State) -> None:
        """Keep how it stands; readers see the old or the new state, whole."""
        write_atomically(self.root / "state.json", to_json(replace(state, seen_at=time.time())))

    def locked(self) -> bool:
        """Whether someone is launching the task or looking after it."""
        try:
            with self.lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # no such task
            return False
        return False


def task_files(home: Path, task_id: str) -> TaskFiles:
    """Where a task's files are, whether or not there are any."""
    return TaskFiles(home / "tasks" / (quote(task_id, safe="").replace(".", "%2E") or "%00"))


def working_folder(task: Task, files: TaskFiles) -> TaskFolder:
    """Where logs, progress and outputs go: the task's own folder, or ours where it names none."""
    return TaskFolder(Path(task.folder) if task.folder else files.root / "files")


def copies_folder(folder: TaskFolder) -> Path:
    """Where the working copies are while the task lives."""
    return folder.root / "nodes"


def write_atomically(file: Path, text: str) -> None:
    """Write a file such that no one ever reads half of it."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_text(text)
        draft.replace(file)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
