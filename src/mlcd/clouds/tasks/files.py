"""The folder by which a task is found: what was asked for, how it stands, and who looks after it.

home/<cloud>/tasks/<task id>/
    lock          held by the launching process, then by the task's runner, for as long as it lives
    spec.json     the task and its deployment, without secrets
    secrets.json  readable by the owner only, and gone as soon as nobody needs them (not on `local`, which hands them on)
    state.json    how it stands, in the runner's words
    stop          there when the task shall end
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar
from urllib.parse import quote, unquote

from mlcd.clouds.tasks.outcome import Outcome, of_error
from mlcd.core.machines import Deployment
from mlcd.core.progress import Usage
from mlcd.core.serial import from_data, to_json
from mlcd.core.task import EndCause, Refusal, Task, TaskFolder, TaskState
from mlcd.errors import CloudError


@dataclass(frozen=True)
class TaskSpec:
    """What a runner is told of its task, but for the secrets; clouds add their own."""

    task: Task
    deployment: Deployment
    home: str  # the cloud's own folder, shared by all tasks
    launched_at: float


@dataclass(frozen=True)
class RunnerState:
    """How a task stands, as its runner writes it; clouds add their own."""

    pid: int = 0  # of the runner, where it takes signals
    birth: str = ""  # of that process, so that a reused pid is not mistaken for it
    state: TaskState = TaskState.STARTING
    seen_at: float = 0.0  # the runner's last sign of life
    started_at: float | None = None
    setup_at: float | None = None
    running_at: float | None = None
    ended_at: float | None = None
    cause: EndCause | None = None
    reason: str = ""
    exit_code: int | None = None
    exit_codes: tuple[int | None, ...] = ()  # of each node
    failed_node: int = 0
    refused: Refusal | None = None  # why the program was not started, where that is no fault of its own
    hint: str = ""  # what to do about that
    warning: str = ""  # what goes wrong now and costs money
    notes: tuple[str, ...] = ()  # what happened on the way, in words
    usage: Usage = Usage()
    clock_ahead: float = 0.0  # seconds that the clock of its nodes is ahead of ours; 0: they agree well enough

    def seconds_left(self, limit: float | None) -> float | None:
        """Of the task's limit, by the clock on the wall: it goes on while a computer sleeps; None: it has no limit."""
        if limit is None or self.started_at is None:
            return limit
        return max(0.0, limit - (time.time() - self.started_at))


def facts_of(outcome: Outcome) -> dict[str, Any]:
    """What an outcome changes in a state."""
    return {
        "state": outcome.state,
        "cause": outcome.cause,
        "reason": outcome.reason,
        "exit_code": outcome.exit_code,
        "exit_codes": outcome.exit_codes,
        "failed_node": outcome.node,
        "refused": outcome.refused,
        "hint": outcome.hint,
    }


Kept = TypeVar("Kept")
SpecKind = TypeVar("SpecKind", bound=TaskSpec)
StateKind = TypeVar("StateKind", bound=RunnerState)


@dataclass(frozen=True)
class Files(Generic[SpecKind, StateKind]):
    """The files of one task in the cloud's own folder, with what its runner is told and tells."""

    root: Path
    spec_kind: ClassVar[type[Any]]
    state_kind: ClassVar[type[Any]]

    @classmethod
    def of(cls, home: Path, task_id: str) -> Self:
        """Where a task's files are, whether or not there are any."""
        return cls(home / "tasks" / (quote(task_id, safe="").replace(".", "%2E") or "%00"))

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
        """What the runner itself has to say."""
        return self.root / "runner.log"

    def read_spec(self) -> SpecKind | None:
        """What was asked for; None: nothing by this name."""
        spec: SpecKind | None = self.read(self.spec_kind, "spec.json")
        return spec

    def write_spec(self, spec: SpecKind) -> None:
        """Keep what was asked for."""
        self.write("spec.json", spec)

    def read_state(self) -> StateKind | None:
        """How it stands; None: no runner took over yet."""
        state: StateKind | None = self.read(self.state_kind, "state.json")
        return state

    def write_state(self, state: StateKind) -> None:
        """Keep how it stands."""
        self.write("state.json", replace(state, seen_at=time.time()))

    def give_up(self, reason: str) -> None:
        """Leave a final state for a runner that could not begin: it must not be started again and again."""
        state = self.read_state() or self.state_kind()
        facts = facts_of(of_error(CloudError(reason), (), began=state.running_at is not None))
        self.write_state(replace(state, **facts, ended_at=time.time()))
        self.forget_secrets()

    def read(self, kind: type[Kept], name: str) -> Kept | None:
        """What was kept by this name; None: nothing."""
        try:
            text = (self.root / name).read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return from_data(kind, with_new_names(json.loads(text)))

    def write(self, name: str, value: Any) -> None:
        """Keep it; readers see the old or the new, whole."""
        write_atomically(self.root / name, to_json(value))

    def write_private(self, name: str, text: str) -> None:
        """Keep what only the owner may read."""
        file = os.open(self.root / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "w") as stream:
            stream.write(text)

    def write_secrets(self, secrets: Mapping[str, str]) -> None:
        """Keep the secrets for the runner, and for the one after it."""
        self.write_private("secrets.json", json.dumps(dict(secrets)))

    def read_secrets(self) -> dict[str, str]:
        """The secrets, as long as they are needed."""
        try:
            return dict(json.loads((self.root / "secrets.json").read_text()))
        except FileNotFoundError:
            return {}

    def forget_secrets(self) -> None:
        """Nobody needs them any more."""
        (self.root / "secrets.json").unlink(missing_ok=True)

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


AnyFiles = Files[Any, Any]


def with_new_names(data: dict[str, Any]) -> dict[str, Any]:
    """What an mlcd before 0.2 wrote of a task, with the names of today: it may have ended long ago, or still run."""
    data = _renamed(data)
    if data.get("refused") == "":
        data["refused"] = None
    if isinstance(data.get("latest"), list):
        data["latest"] = [_renamed(each) for each in data["latest"]]
    if isinstance(data.get("outcome"), dict) and "cause" not in data["outcome"]:
        data["outcome"] = None  # what it says is found out again
    return data


def _renamed(data: dict[str, Any]) -> dict[str, Any]:
    return {_RENAMED.get(name, name): value for name, value in data.items()}


_RENAMED = {
    "seller": "provider",
    "couriers": "runners",
    "kept": "warm",
    "kept_until": "warm_until",
    "stints": "latest",
    "invocation": "invocation_id",
    "heard_at": "reported_at",
    "vain": "fruitless",
}


def working_folder(task: Task, files: AnyFiles) -> TaskFolder:
    """Where logs, progress and outputs go: the task's own folder, or ours where it names none."""
    return TaskFolder(Path(task.folder) if task.folder else files.root / "files")


def checkpoint_folder(task: Task, folder: TaskFolder) -> Path:
    """The job's checkpoints; a task that names none, as a probe does, gets a folder of its own."""
    return Path(task.checkpoints) if task.checkpoints else folder.root / "checkpoints"


def make_folders(folder: TaskFolder, checkpoints: Path) -> None:
    """Have all the folders that the results go to."""
    for place in (folder.log().parent, folder.progress, folder.outputs, checkpoints):
        place.mkdir(parents=True, exist_ok=True)


def write_atomically(file: Path, text: str) -> None:
    """Write a file such that no one ever reads half of it."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_text(text)
        draft.replace(file)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
