"""A program that saves to its own folder, without a word of mlcd in it, can be stopped, killed and resumed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clouds.local_tools import Computer, log_of, wait_for_text
from mlcd.clouds.checkpoints import newest_complete, samples_of
from mlcd.clouds.tasks.snapshots import Snapshots
from mlcd.core.job import ProgressSettings
from mlcd.core.task import Task, TaskState

SAVES = 'ls saved 2>/dev/null | sed "s/^/found /"; mkdir -p saved; echo weights > saved/model.bin; echo step 5; echo saved; '


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    """This computer; what a test leaves running is ended after it."""
    computer = Computer(tmp_path / "home")
    yield computer
    computer.end_everything()


def saving(computer: Computer, then: str, **changes: Any) -> Task:
    """A task that looks for its checkpoint, saves one, and goes on."""
    facts: dict[str, Any] = {"checkpoints": str(computer.home / "checkpoints"), "checkpoint_path": "saved"}
    return computer.task(SAVES + then, **{**facts, **changes})


@pytest.mark.slow
def test_what_rests_is_committed_while_the_program_runs(computer: Computer) -> None:
    pattern = ProgressSettings(r"step (?P<step>\d+)")
    task = saving(computer, "sleep 1000", progress=pattern, samples_before=100.0)
    handle = computer.launch(task)
    wait_for_text(task, "saved")
    deadline = time.monotonic() + 10
    while (newest := newest_complete(Path(task.checkpoints))) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (newest / "model.bin").read_text() == "weights\n"
    assert 100.0 <= samples_of(newest) <= 105.0
    os.kill(computer.state(handle).pid, signal.SIGKILL)
    assert computer.wait(handle).state is TaskState.LOST
    again = saving(computer, "true")
    assert computer.run(again).state is TaskState.SUCCEEDED
    assert f"going on from checkpoint {newest.name}" in log_of(again)
    assert "found model.bin" in log_of(again)


@pytest.mark.slow
def test_what_was_saved_last_is_committed_at_a_good_end(computer: Computer) -> None:
    task = saving(computer, "true")
    computer.run(task)
    assert newest_complete(Path(task.checkpoints)) is not None


@pytest.mark.slow
def test_what_a_crash_cut_off_is_not_committed(computer: Computer) -> None:
    task = saving(computer, "kill -9 $$")
    computer.run(task)
    assert newest_complete(Path(task.checkpoints)) is None


@pytest.mark.slow
def test_a_probe_keeps_its_checkpoints_to_itself(computer: Computer) -> None:
    task = saving(computer, "true", checkpoints="")
    computer.run(task)
    assert newest_complete(Path(task.folder) / "checkpoints") is not None


def test_a_folder_that_never_rests_is_committed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, into = tmp_path / "saved", tmp_path / "checkpoints"
    folder.mkdir()
    snapshots = Snapshots(folder, into, 2, lambda moment: 7.0, "task", lambda message: None)
    monkeypatch.setattr("mlcd.clouds.tasks.snapshots.LOOK_SECONDS", 0.0)
    (folder / "model.bin").write_text("weights")
    snapshots.look()
    assert newest_complete(into) is None
    monkeypatch.setattr("mlcd.clouds.tasks.snapshots.NEVER_AT_REST_SECONDS", -1.0)
    snapshots.look()
    snapshots.finish(trusted=False, ended_at=time.time())
    newest = newest_complete(into)
    assert newest is not None
    assert samples_of(newest) == 7.0


def test_a_program_that_saves_all_the_time_is_content_with_a_short_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, into = tmp_path / "saved", tmp_path / "checkpoints"
    folder.mkdir()
    snapshots = Snapshots(folder, into, 2, lambda moment: 7.0, "task", lambda message: None)
    monkeypatch.setattr("mlcd.clouds.tasks.snapshots.LOOK_SECONDS", 0.0)
    monkeypatch.setattr("mlcd.clouds.tasks.snapshots.SHORT_LOOK_SECONDS", 0.0)
    _save(folder, age_seconds=0.5)
    snapshots.look()
    assert newest_complete(into) is None
    monkeypatch.setattr("mlcd.clouds.tasks.snapshots.RESTLESS_SECONDS", -1.0)
    _save(folder, age_seconds=0.0)
    snapshots.look()
    assert newest_complete(into) is None
    _save(folder, age_seconds=0.5)
    snapshots.look()
    snapshots.finish(trusted=False, ended_at=time.time())
    assert newest_complete(into) is not None


def _save(folder: Path, age_seconds: float) -> None:
    """What a program wrote so long ago."""
    (folder / "model.bin").write_text("weights")
    moment = time.time() - age_seconds
    os.utime(folder / "model.bin", (moment, moment))


def test_a_checkpoint_that_cannot_be_kept_is_told_and_hurts_nothing(tmp_path: Path) -> None:
    folder, said = tmp_path / "saved", []
    folder.mkdir()
    (tmp_path / "file").write_text("not a folder")
    snapshots = Snapshots(folder, tmp_path / "file", 2, lambda moment: 7.0, "task", said.append)
    (folder / "model.bin").write_text("weights")
    snapshots.finish(trusted=True, ended_at=time.time())
    assert len(said) == 1
    assert "could not be kept" in said[0]
