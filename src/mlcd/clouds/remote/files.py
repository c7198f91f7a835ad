"""The folder by which a task is found: what was asked for, how it stands, and who looks after it.

home/<cloud>/tasks/<task id>/
    lock          held by the launching process, then by the courier, for as long as it lives
    spec.json     the task and its deployment, without secrets
    secrets.json  readable by the owner only, and gone as soon as the machines have them
    state.json    how it stands, in the courier's words
    notes.json    what whoever takes over must know of a call that was never answered
    stop          there when the task shall end
    courier.log
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from mlcd.clouds.local.files import write_atomically
from mlcd.clouds.remote.base import Machine
from mlcd.core.machines import Deployment
from mlcd.core.progress import Usage
from mlcd.core.serial import from_json, to_json
from mlcd.core.task import Task, TaskFolder, TaskState


@dataclass(frozen=True)
class Spec:
    """All that a courier is told, but for the secrets."""

    task: Task
    deployment: Deployment
    home: str  # the cloud's own folder, shared by all tasks
    seller: str  # "module:function" of an OpenMachines
    options: dict[str, Any]  # for it
    launched_at: float


@dataclass(frozen=True)
class State:
    """How a task stands, in its courier's words."""

    state: TaskState = TaskState.STARTING
    seen_at: float = 0.0  # the courier's last sign of life
    machines: tuple[Machine, ...] = ()
    started_at: float | None = None
    setup_at: float | None = None
    running_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    exit_codes: tuple[int | None, ...] = ()  # of each node
    reason: str = ""
    refused: str = ""  # the kind of error with which the seller refused: 'no capacity', 'user', 'cloud'
    hint: str = ""
    failed_node: int = 0
    usage: Usage = Usage()
    agents: bool = False  # the program was handed to the machines
    couriers: int = 0  # how many have looked after it
    received_bytes: int = 0  # from the machines
    kept_until: float | None = None  # machines wait for the next task, paid for up to then
    kept: tuple[str, ...] = ()  # their ids
    billed_to: dict[str, float] = field(default_factory=dict)  # machine → when it was given back


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
        """Whoever holds it may look after the task."""
        return self.root / "lock"

    @property
    def stop(self) -> Path:
        """There when the task shall end."""
        return self.root / "stop"

    @property
    def log(self) -> Path:
        """What the courier itself has to say."""
        return self.root / "courier.log"

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
        """How it stands; None: no courier took over yet."""
        try:
            return from_json(State, (self.root / "state.json").read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_state(self, state: State) -> None:
        """Keep how it stands; readers see the old or the new state, whole."""
        write_atomically(self.root / "state.json", to_json(replace(state, seen_at=time.time())))

    def give_up(self, reason: str) -> None:
        """Leave last words for a courier that has none."""
        state = replace(self.read_state() or State(), state=TaskState.FAILED, reason=reason)
        refused = "" if state.machines else "cloud"
        self.write_state(replace(state, ended_at=time.time(), refused=refused))

    def write_secrets(self, secrets: Mapping[str, str]) -> None:
        """Keep the secrets for the courier, and for the one after it, until the machines have them."""
        file = os.open(self.root / "secrets.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "w") as stream:
            json.dump(dict(secrets), stream)

    def read_secrets(self) -> dict[str, str]:
        """The secrets, as long as they are needed."""
        try:
            return dict(json.loads((self.root / "secrets.json").read_text()))
        except FileNotFoundError:
            return {}

    def forget_secrets(self) -> None:
        """The machines have them, or nobody needs them any more."""
        (self.root / "secrets.json").unlink(missing_ok=True)

    def read_notes(self) -> dict[str, str]:
        """What the courier before us left for us."""
        try:
            return dict(json.loads((self.root / "notes.json").read_text()))
        except FileNotFoundError:
            return {}

    def note(self, name: str, value: str) -> None:
        """Leave a word for the courier after us, before doing what it may have to take over."""
        write_atomically(self.root / "notes.json", json.dumps({**self.read_notes(), name: value}))

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
