"""What the runner of a task on machines elsewhere is told and tells beside the rest; see tasks.files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.base import Machine
from mlcd.clouds.tasks.files import Files, RunnerState, TaskSpec, write_atomically
from mlcd.clouds.tasks.outcome import Outcome


@dataclass(frozen=True)
class Spec(TaskSpec):
    """With who rents out the machines."""

    provider: str  # "module:function" of an OpenMachines
    options: dict[str, Any]  # for it


@dataclass(frozen=True)
class State(RunnerState):
    """With the machines of the task, and what becomes of them."""

    machines: tuple[Machine, ...] = ()
    outcome: Outcome | None = None  # the results are here; only the machines are still to be given back
    agents: bool = False  # the program was handed to the machines
    runners: int = 0  # how many have looked after it
    received_bytes: int = 0  # from the machines
    warm_until: float | None = None  # machines wait for the next task, paid for up to then
    warm: tuple[str, ...] = ()  # their ids
    # Machine → when it was given back, or had ended.
    billed_to: dict[str, float] = field(default_factory=dict)
    # Machine → when it ends itself, as last renewed.
    leased_until: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskFiles(Files[Spec, State]):
    """The files of one task, with what its runner is told and tells.

    notes.json holds what whoever takes over must know of a call that was never answered.
    """

    spec_kind = Spec
    state_kind = State

    @property
    def claimed(self) -> Path:
        """Machines of earlier tasks that this one has taken; see warm_pool.py."""
        return self.root / "claimed"

    @property
    def offered(self) -> Path:
        """Machines that are about to wait for the job's next task."""
        return self.root / "offered"

    def read_notes(self) -> dict[str, str]:
        """What the runner before us left for us."""
        try:
            return dict(json.loads((self.root / "notes.json").read_text()))
        except FileNotFoundError:
            return {}

    def note(self, name: str, value: str) -> None:
        """Leave a word for the runner after us, before doing what it may have to take over."""
        write_atomically(self.root / "notes.json", json.dumps({**self.read_notes(), name: value}))
