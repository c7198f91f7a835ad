"""Who is blamed for a task that could not go on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from loopback_machines import OFFER
from mlcd.clouds.remote.base import UnreachableError
from mlcd.clouds.remote.files import Spec, State, TaskFiles
from mlcd.clouds.remote.task import RemoteTask
from mlcd.core.machines import Deployment
from mlcd.core.task import EndCause, Refusal, Task, TaskKind, TaskState
from mlcd.errors import MlcdError, UserError

AWAY = UnreachableError("Machine m-1 does not answer.")


def files_in(home: Path, **facts: Any) -> TaskFiles:
    """Those of a task that stands so."""
    files = TaskFiles.of(home, "task-1")
    files.root.mkdir(parents=True)
    files.write_state(State(started_at=time.time(), **facts))
    return files


def task_of(files: TaskFiles, home: Path) -> RemoteTask:
    task = Task("task-1", "job", TaskKind.TRAINING, "command", "true", folder=str(home / "task-1"))
    options = {"books": str(home / "books")}
    spec = Spec(task, Deployment(OFFER, 1), str(home), time.time(), "loopback_machines:open_machines", options)
    return RemoteTask(files, spec, {})


@pytest.mark.parametrize(
    ("error", "refused"),
    [(AWAY, Refusal.CLOUD), (UserError("The key may not enter.", "Change it."), Refusal.USER)],
)
def test_a_program_that_was_handed_over_and_never_ran_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: MlcdError, refused: Refusal
) -> None:
    files = files_in(tmp_path, agents=True, state=TaskState.SETUP)
    task = task_of(files, tmp_path)
    monkeypatch.setattr(task, "_rejoin", lambda: _raise(error))
    outcome = task._live()
    assert (outcome.state, outcome.reason) == (TaskState.FAILED, error.message)
    assert (outcome.refused, outcome.hint) == (refused, error.hint)


def test_once_the_program_runs_nothing_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_in(tmp_path, agents=True, state=TaskState.RUNNING, running_at=time.time())
    task = task_of(files, tmp_path)
    monkeypatch.setattr(task, "_rejoin", lambda: _raise(AWAY))
    outcome = task._live()
    assert (outcome.cause, outcome.refused) == (EndCause.CRASHED, None)


@pytest.mark.parametrize(("running_at", "refused"), [(None, Refusal.CLOUD), (1.0, None)])
def test_a_runner_that_cannot_begin_blames_no_program_that_never_ran(
    tmp_path: Path, running_at: float | None, refused: Refusal | None
) -> None:
    files = files_in(tmp_path, agents=True, running_at=running_at)
    files.give_up("its task runner could not begin: no memory")
    state = files.read_state()
    assert state is not None
    assert (state.state, state.refused) == (TaskState.FAILED, refused)


def _raise(error: MlcdError) -> None:
    raise error
