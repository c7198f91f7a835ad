"""What a courier is told of its task, and what it tells; see tasks.files for the folder."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.base import Machine
from mlcd.clouds.tasks.files import Files, task_root, write_atomically
from mlcd.core.machines import Deployment
from mlcd.core.progress import Usage
from mlcd.core.task import Refusal, Task, TaskState


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
class Outcome:
    """How a task ended, known before its machines are given back."""

    state: TaskState
    reason: str = ""
    exit_code: int | None = None
    exit_codes: tuple[int | None, ...] = ()  # of each node
    failed_node: int = 0


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
    refused: str = ""  # why the program never started, where it did not: a Refusal
    hint: str = ""
    warning: str = ""  # what goes wrong now and costs money
    clock_ahead: float = 0.0  # seconds that the machines' clock is ahead of ours; 0: they agree well enough
    failed_node: int = 0
    outcome: Outcome | None = (
        None  # what is brought home is here; only the machines are still to be given back
    )
    usage: Usage = Usage()
    agents: bool = False  # the program was handed to the machines
    couriers: int = 0  # how many have looked after it
    received_bytes: int = 0  # from the machines
    kept_until: float | None = None  # machines wait for the next task, paid for up to then
    kept: tuple[str, ...] = ()  # their ids
    billed_to: dict[str, float] = field(
        default_factory=dict
    )  # machine → when it was given back, or had ended
    leased_until: dict[str, float] = field(
        default_factory=dict
    )  # machine → when it ends itself, as last renewed


@dataclass(frozen=True)
class TaskFiles(Files[Spec, State]):
    """The files of one task, with what its courier is told and tells.

    notes.json holds what whoever takes over must know of a call that was never answered.
    """

    spec_kind = Spec
    state_kind = State

    def give_up(self, reason: str) -> None:
        """Leave last words for a courier that has none."""
        state = replace(self.read_state() or State(), state=TaskState.FAILED, reason=reason)
        refused = "" if state.running_at else Refusal.CLOUD
        self.write_state(replace(state, ended_at=time.time(), refused=refused))
        self.forget_secrets()

    @property
    def claimed(self) -> Path:
        """Machines of earlier tasks that this one has taken; see keeping.py."""
        return self.root / "claimed"

    @property
    def offered(self) -> Path:
        """Machines that are about to wait for the job's next task."""
        return self.root / "offered"

    def read_notes(self) -> dict[str, str]:
        """What the courier before us left for us."""
        try:
            return dict(json.loads((self.root / "notes.json").read_text()))
        except FileNotFoundError:
            return {}

    def note(self, name: str, value: str) -> None:
        """Leave a word for the courier after us, before doing what it may have to take over."""
        write_atomically(self.root / "notes.json", json.dumps({**self.read_notes(), name: value}))


def task_files(home: Path, task_id: str) -> TaskFiles:
    """Where a task's files are, whether or not there are any."""
    return TaskFiles(task_root(home, task_id))
