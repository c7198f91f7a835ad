"""A program that saves to its own folder, without a word of mlcd in it, can be stopped, killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from clouds.local.tools import Computer, log_of, wait_for_text
from mlcd.clouds.checkpoints import Trained, commit, newest_complete, samples_of, signature
from mlcd.clouds.tasks.formats import cut_off
from mlcd.clouds.tasks.snapshots import Snapshots
from mlcd.core.job import ProgressSettings
from mlcd.core.task import Task, TaskState
from mlcd.worker.checkpoints import complete_checkpoints

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
    return computer.task(**{"run": SAVES + then, **facts, **changes})


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "steps"), [("true", 12.0), ("exit 1", 11.0)])
def test_a_last_line_without_its_end_counts_where_the_program_ended_in_order(
    computer: Computer, ending: str, steps: float
) -> None:
    run = f"printf 'step 10\\rstep 11\\rstep 12'; {ending}"
    status = computer.run(computer.task(run=run, progress=ProgressSettings(r"step (?P<step>\d+)")))
    assert status.progress.steps == steps


@pytest.mark.slow
def test_what_rests_is_committed_while_the_program_runs(computer: Computer) -> None:
    pattern = ProgressSettings(r"step (?P<step>\d+)")
    task = saving(computer, "sleep 1000", progress=pattern, samples_before=100.0)
    handle = computer.launch(task)
    wait_for_text(task, "saved")
    deadline = time.monotonic() + 60
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


@pytest.mark.slow
def test_what_a_program_has_opened_and_not_yet_written_is_not_committed(computer: Computer) -> None:
    save = "mkdir saved; exec 3> saved/weights; sleep 3; echo weights >&3; exec 3>&-; sleep 3"
    task = saving(computer, "", run=save)
    assert computer.run(task).state is TaskState.SUCCEEDED
    found = complete_checkpoints(Path(task.checkpoints))
    assert [(one.path / "weights").read_text() for one in found] == ["weights\n"]


def test_a_folder_that_never_rests_is_committed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, into = tmp_path / "saved", tmp_path / "checkpoints"
    folder.mkdir()
    snapshots = Snapshots(folder, into, 2, lambda moment: Trained(7.0), "task", lambda message: None)
    monkeypatch.setattr("mlcd.clouds.tasks.snapshots.LOOK_SECONDS", 0.0)
    monkeypatch.setattr("mlcd.clouds.tasks.snapshots.LOOK_SHARE", 0.0)
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
    snapshots = Snapshots(folder, into, 2, lambda moment: Trained(7.0), "task", lambda message: None)
    monkeypatch.setattr("mlcd.clouds.tasks.snapshots.LOOK_SECONDS", 0.0)
    monkeypatch.setattr("mlcd.clouds.tasks.snapshots.LOOK_SHARE", 0.0)
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
    snapshots = Snapshots(folder, tmp_path / "file", 2, lambda moment: Trained(7.0), "task", said.append)
    (folder / "model.bin").write_text("weights")
    snapshots.finish(trusted=True, ended_at=time.time())
    assert len(said) == 1
    assert "could not be kept" in said[0]


def test_a_link_in_the_place_of_the_folder_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "copy" / "saved").mkdir(parents=True)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("secret")
    said: list[str] = []
    snapshots = Snapshots(
        tmp_path / "copy" / "saved",
        tmp_path / "checkpoints",
        2,
        lambda moment: Trained(1.0),
        "t",
        said.append,
    )
    (tmp_path / "copy" / "saved").rmdir()
    (tmp_path / "copy" / "saved").symlink_to(tmp_path / "secrets")
    snapshots.finish(trusted=True, ended_at=time.time())
    (tmp_path / "copy").rename(tmp_path / "old")
    (tmp_path / "saved").mkdir()
    (tmp_path / "copy").symlink_to(tmp_path)
    (tmp_path / "saved" / "key").write_text("secret")
    snapshots.finish(trusted=True, ended_at=time.time())
    assert newest_complete(tmp_path / "checkpoints") is None
    assert said == ["not in the checkpoint, because it leads out of the folder or is no file: saved"]


COUNTS = """
import json, os, time
from pathlib import Path
import mlcd
place = Path("saved/state.json")
done = json.loads(place.read_text()) if place.exists() else 0
total = int(os.environ["TOTAL"])
for number, batch in enumerate(mlcd.steps([[0] * 10] * ((total - done) // 10))):
    time.sleep(0.01)
    done += len(batch)
    if number % 70 == 69:
        draft = place.with_suffix(".new")
        draft.parent.mkdir(exist_ok=True)
        draft.write_text(json.dumps(done))
        draft.replace(place)
        time.sleep(0.6)
"""


@pytest.mark.slow
def test_restarts_add_no_error_to_the_count(computer: Computer, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(COUNTS)
    facts: dict[str, Any] = {"workdir": str(tmp_path / "work"), "envs": {"TOTAL": "4200"}, "samples": 0.0}
    before = 0.0
    for _ in range(2):
        task = saving(computer, "", run="python3 train.py", samples_before=before, **facts)
        handle = computer.launch(task)
        known = newest_complete(Path(task.checkpoints))
        newest = _wait_for_newer(Path(task.checkpoints), known)
        os.kill(computer.state(handle).pid, signal.SIGKILL)
        assert computer.wait(handle).state is TaskState.LOST
        newest = newest_complete(Path(task.checkpoints))
        assert newest is not None
        before = samples_of(newest)
        assert before == float((newest / "state.json").read_text())
    last = saving(computer, "", run="python3 train.py", samples_before=before, **facts)
    status = computer.run(last)
    assert status.state is TaskState.SUCCEEDED
    assert before + status.progress.samples == 4200


def _wait_for_newer(checkpoints: Path, known: Path | None) -> Path:
    deadline = time.monotonic() + 120
    while (newest := newest_complete(checkpoints)) in (None, known):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert newest is not None
    return newest


SLOW_WRITER = """
import sys, time
stream = open("saved/weights.bin", "wb")
print("open", flush=True)
sys.stdin.readline()
stream.write(b"weights")
stream.close()
print("closed", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that has opened its checkpoint, and writes and closes it when it is told to."""
    (tmp_path / "saved").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_WRITER],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        yield process
        process.kill()


def _hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_file_that_is_open_for_writing_is_not_committed_however_long_it_rests(
    tmp_path: Path, writer: subprocess.Popen[str], at_once: None
) -> None:
    folder, into = tmp_path / "saved", tmp_path / "checkpoints"
    watch = Snapshots(folder, into, 2, lambda moment: Trained(7.0), "task", print, lambda: {writer.pid})
    assert _hear(writer) == "open"
    _age(folder / "weights.bin", 5.0)
    watch.look()
    watch.finish(trusted=False, ended_at=time.time())
    assert newest_complete(into) is None
    _tell(writer)
    assert _hear(writer) == "closed"
    _age(folder / "weights.bin", 5.0)
    watch.look()
    watch.finish(trusted=False, ended_at=time.time())
    newest = newest_complete(into)
    assert newest is not None
    assert (newest / "weights.bin").read_bytes() == b"weights"


def test_a_file_that_is_kept_open_for_good_counts_as_finished_in_the_end(
    tmp_path: Path, writer: subprocess.Popen[str], at_once: None
) -> None:
    folder, into = tmp_path / "saved", tmp_path / "checkpoints"
    watch = Snapshots(folder, into, 2, lambda moment: Trained(7.0), "task", print, lambda: {writer.pid})
    assert _hear(writer) == "open"
    _age(folder / "weights.bin", 31.0)
    watch.look()
    watch.finish(trusted=False, ended_at=time.time())
    assert newest_complete(into) is not None


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look is one, without a pause."""
    for name in ("LOOK_SECONDS", "SHORT_LOOK_SECONDS", "LOOK_SHARE"):
        monkeypatch.setattr(f"mlcd.clouds.tasks.snapshots.{name}", 0.0)


def _age(file: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(file, (moment, moment))


def test_a_file_without_its_end_is_not_committed_though_the_program_ended_in_order(
    tmp_path: Path, at_once: None
) -> None:
    folder, into, said = tmp_path / "saved", tmp_path / "checkpoints", list[str]()
    folder.mkdir()
    watch = Snapshots(folder, into, 2, lambda moment: Trained(7.0), "task", said.append)
    with zipfile.ZipFile(folder / "model.pt", "w") as archive:
        archive.writestr("data", "weights" * 100)
    whole = (folder / "model.pt").read_bytes()
    (folder / "model.pt").write_bytes(whole[:-10])
    _age(folder / "model.pt", 5.0)
    watch.look()
    watch.finish(trusted=True, ended_at=time.time())
    assert newest_complete(into) is None
    assert "cut off" in said[0]
    (folder / "model.pt").write_bytes(whole)
    watch.finish(trusted=True, ended_at=time.time())
    assert newest_complete(into) is not None


def test_what_was_saved_again_after_the_look_does_not_get_the_count_of_before(
    tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, into = tmp_path / "saved", tmp_path / "checkpoints"
    folder.mkdir()
    (folder / "model.bin").write_text("first")
    seen = signature(folder)
    (folder / "model.bin").write_text("second")
    assert commit(folder, into, 7.0, "task", seen) is None
    assert commit(folder, into, 8.0, "task", signature(folder)) is not None


def test_a_log_that_is_written_all_the_time_holds_no_checkpoint_up(tmp_path: Path) -> None:
    folder, into = tmp_path / "saved", tmp_path / "checkpoints"
    folder.mkdir()
    (folder / "model.bin").write_text("weights")
    (folder / "metrics.csv").write_text("1\n")
    seen = signature(folder)
    (folder / "metrics.csv").write_text("1\n2\n")
    assert commit(folder, into, 7.0, "task", seen, frozenset({"metrics.csv"})) is not None


def test_a_count_that_may_still_come_is_waited_for(tmp_path: Path, at_once: None) -> None:
    folder, into, told = tmp_path / "saved", tmp_path / "checkpoints", [Trained(5.0, known=False)]
    folder.mkdir()
    watch = Snapshots(folder, into, 2, lambda moment: told[-1], "task", print)
    (folder / "model.bin").write_text("weights")
    _age(folder / "model.bin", 2.0)
    watch.look()
    assert not list(tmp_path.glob("checkpoints/*"))
    told.append(Trained(7.0))
    watch.look()
    watch.finish(trusted=False, ended_at=time.time())
    newest = newest_complete(into)
    assert newest is not None
    assert samples_of(newest) == 7.0


KERAS = """
import os, pathlib
os.environ["KERAS_BACKEND"] = "jax"  # quicker to import than tensorflow; the callback is the same
import keras, numpy as np
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(64), keras.layers.Dense(1)])
model.compile("adam", "mse")
last = int(os.environ["LAST"])

class Say(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        print("epoch", epoch, flush=True)
        if epoch == last:
            while True:
                import time; time.sleep(1)

x = np.random.rand(256, 8)
model.fit(x, x[:, :1], epochs=8, verbose=0,
          callbacks=[keras.callbacks.BackupAndRestore("saved", delete_checkpoint=False), Say()])
print("trained", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not all(map(find_spec, ("keras", "h5py", "jax"))), reason="keras, h5py or jax is not installed")
def test_keras_own_backup_is_kept_whole_and_restored_after_a_kill(computer: Computer, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(KERAS)
    facts: dict[str, Any] = {"workdir": str(tmp_path / "work"), "run": "python train.py"}
    task = saving(computer, "", envs={"LAST": "4"}, **facts)
    handle = computer.launch(task, memory_gib=4.0)
    newest = _wait_for_newer(Path(task.checkpoints), None)
    while '"epoch": 4' not in (newest / "training_metadata.json").read_text():
        newest = _wait_for_newer(Path(task.checkpoints), newest)
    os.kill(computer.state(handle).pid, signal.SIGKILL)
    computer.wait(handle)
    again = saving(computer, "", envs={"LAST": "-1"}, **facts)
    status = computer.wait(computer.launch(again, memory_gib=4.0), seconds=120)
    assert status.state is TaskState.SUCCEEDED, log_of(again)
    assert not any(cut_off(file) for file in newest.iterdir())
    assert "epoch 3" not in log_of(again)
    assert "epoch 4" in log_of(again)
