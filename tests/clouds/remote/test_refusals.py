"""Who is blamed for a task that could not go on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from loopback_machines import OFFER
from mlcd.clouds.remote.base import UnreachableError
from mlcd.clouds.remote.errand import Errand
from mlcd.clouds.remote.files import Spec, State, TaskFiles, task_files
from mlcd.core.machines import Deployment
from mlcd.core.task import Refusal, Task, TaskKind, TaskState
from mlcd.errors import MlcdError, UserError

AWAY = UnreachableError("Machine m-1 does not answer.")


def files_in(home: Path, **facts: Any) -> TaskFiles:
    """Those of a task that stands so."""
    files = task_files(home, "task-1")
    files.root.mkdir(parents=True)
    files.write_state(State(started_at=time.time(), **facts))
    return files


def errand_of(files: TaskFiles, home: Path) -> Errand:
    task = Task("task-1", "job", TaskKind.TRAINING, "command", "true", folder=str(home / "task-1"))
    options = {"books": str(home / "books")}
    spec = Spec(
        task, Deployment(OFFER, 1), str(home), "loopback_machines:open_machines", options, time.time()
    )
    return Errand(files, spec)


@pytest.mark.parametrize(
    ("error", "refused"),
    [(AWAY, Refusal.CLOUD), (UserError("The key may not enter.", "Change it."), Refusal.USER)],
)
def test_a_program_that_was_handed_over_and_never_ran_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: MlcdError, refused: Refusal
) -> None:
    files = files_in(tmp_path, agents=True, state=TaskState.SETUP)
    errand = errand_of(files, tmp_path)
    monkeypatch.setattr(errand, "_rejoin", lambda: _raise(error))
    ending = errand._live()
    assert (ending.state, ending.reason) == (TaskState.FAILED, error.message)
    state = files.read_state()
    assert state is not None
    assert (state.refused, state.hint) == (refused, error.hint)


def test_once_the_program_runs_nothing_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_in(tmp_path, agents=True, state=TaskState.RUNNING, running_at=time.time())
    errand = errand_of(files, tmp_path)
    monkeypatch.setattr(errand, "_rejoin", lambda: _raise(AWAY))
    errand._live()
    state = files.read_state()
    assert state is not None
    assert state.refused == ""


@pytest.mark.parametrize(("running_at", "refused"), [(None, Refusal.CLOUD), (1.0, "")])
def test_a_courier_that_cannot_begin_blames_no_program_that_never_ran(
    tmp_path: Path, running_at: float | None, refused: str
) -> None:
    files = files_in(tmp_path, agents=True, running_at=running_at)
    files.give_up("its courier could not begin: no memory")
    state = files.read_state()
    assert state is not None
    assert (state.state, state.refused) == (TaskState.FAILED, refused)


def _raise(error: MlcdError) -> None:
    raise error
