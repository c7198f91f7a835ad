"""Training on functions gives what one process gives, whatever happens to the functions."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from function_tasks import Field, log_of
from function_trainings import curve, kill_one, one_process, training
from mlcd.clouds.tasks.processes import seen
from mlcd.core.serial import to_json
from mlcd.core.task import TaskState
from mlcd.errors import CloudError
from mlcd.sync.valkey.connection import Connection
from mlcd.worker.checkpoints import complete_checkpoints, newest_intact
from mlcd_functions.files import Spec, TaskFiles
from mlcd_functions.settings import FunctionsSettings
from mlcd_functions.valkey_server import start_servers

pytestmark = pytest.mark.slow


def test_two_functions_learn_what_one_process_learns(fields: Any, tmp_path: Path) -> None:
    field = fields()
    task = training(field, tmp_path, STEPS="20")
    status = field.run(task, nodes=2)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    expected = one_process(tmp_path, 20)
    assert curve(log_of(task)) == pytest.approx(expected, rel=1e-9)
    assert status.progress.samples == 20 * 32
    assert [charge.what for charge in status.charges][:2] == ["2 × fn-3538mb", "requests"]
    assert field.environments() == set()


def test_restarts_and_kills_change_nothing_in_the_curve(fields: Any, tmp_path: Path) -> None:
    began = time.monotonic()
    expected = one_process(tmp_path, 150)
    limit = math.ceil(max(6.0, 5 * (time.monotonic() - began)))  # a slow machine needs longer to start programs
    field = fields(duration_seconds=limit, margin_seconds=0.4 * limit, straggler_seconds=2.0 * limit)
    task = training(field, tmp_path, STEPS="150", PAUSE=str(limit / 40))
    handle = field.launch(task, nodes=2)
    chance = random.Random(5)
    while not (status := field.cloud.status(handle)).state.ended:
        seen_losses = field.state(handle).losses if status.progress.steps else 0
        if seen_losses < 2 and status.progress.steps > 30 * (seen_losses + 1):
            kill_one(field, chance)  # perhaps one that is idle: then another one later
            time.sleep(limit / 4)
        time.sleep(0.1)
    state = field.state(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert curve(log_of(task)) == pytest.approx(expected, rel=1e-9)
    assert state.losses >= 2
    assert state.restarts - state.losses >= 5
    assert status.progress.samples == 150 * 32


def test_a_torch_program_runs_unchanged_on_functions_that_cannot_reach_each_other(fields: Any) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    field = fields(straggler_seconds=300.0)
    workdir = Path(__file__).resolve().parents[3] / "examples" / "digits"
    task = field.task("python train.py", workdir=str(workdir), platform="pytorch", samples=1437.0 * 3)
    handle = field.cloud.launch(task, replace(field.deployment(2), batch_size=64), {})
    status = field.wait(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task), log_of(task, 1))
    assert status.progress.samples >= 1437 * 3
    assert (Path(task.folder) / "outputs" / "model.pt").is_file()


def test_a_killed_runner_is_replaced_and_nothing_is_done_twice(fields: Any, tmp_path: Path) -> None:
    field = fields(straggler_seconds=10.0)
    task = training(field, tmp_path, STEPS="40", PAUSE="0.2")
    handle = field.launch(task, nodes=2, TOKEN="tell-nobody")
    field.wait(handle, lambda status: status.progress.steps >= 7)
    before = field.state(handle)
    os.kill(before.pid, signal.SIGKILL)
    status = field.wait(handle)
    after = field.state(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert (after.pid != before.pid, after.invocations) == (True, 2)
    assert curve(log_of(task)) == pytest.approx(one_process(tmp_path, 40), rel=1e-9)
    assert TaskFiles.of(field.cloud.home, handle).read_secrets() == {}
    everything = [path for path in field.home.rglob("*") if path.is_file()]
    assert not [path for path in everything if b"tell-nobody" in path.read_bytes()]


def test_a_killed_runner_of_one_function_loses_not_even_a_step(fields: Any, tmp_path: Path) -> None:
    field = fields()
    task = training(field, tmp_path, STEPS="25", PAUSE="0.2")
    handle = field.launch(task)
    field.wait(handle, lambda status: status.progress.steps >= 4)
    os.kill(field.state(handle).pid, signal.SIGKILL)
    status = field.wait(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert (field.state(handle).invocations, field.state(handle).generation) == (1, 1)
    assert re.findall(r"^step (\d+)", log_of(task), re.M) == [str(step) for step in range(1, 26)]


def test_a_killed_parameter_store_is_started_again(fields: Any, tmp_path: Path) -> None:
    field = fields(straggler_seconds=10.0)
    task = training(field, tmp_path, STEPS="40", PAUSE="0.2")
    handle = field.launch(task, nodes=2)
    field.wait(handle, lambda status: status.progress.steps >= 7)
    for pid in children(field.state(handle).pid):
        os.kill(pid, signal.SIGKILL)
    status = field.wait(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert "the parameter store was lost" in log_of(task)
    assert curve(log_of(task)) == pytest.approx(one_process(tmp_path, 40), rel=1e-9)


def test_a_full_parameter_store_is_told_nothing_is_lost_and_more_memory_lets_it_go_on(
    fields: Any, tmp_path: Path
) -> None:
    with start_servers(memory_mb=12) as shared:
        owner = Connection(shared.url)
        owner.ask("SET", "somebody-elses", "value")
        field = fields(parameters=shared.url)
        task = training(field, tmp_path, STEPS="20", GROWS_AT="12")
        status = field.run(task, nodes=2)
        assert (status.state, "the parameter store is full" in status.reason) == (TaskState.FAILED, True)
        assert owner.ask("KEYS", "*") == [b"somebody-elses"]
        owner.ask("CONFIG", "SET", "maxmemory", 256 << 20)
        later = fields(parameters=shared.url)
        again = replace(
            training(later, tmp_path, STEPS="20", GROWS_AT="12"),
            checkpoints=task.checkpoints,
            samples_before=10 * 32,
        )
        status = later.run(again, nodes=2)
        assert status.state is TaskState.SUCCEEDED, (status, log_of(again))
        assert min(curve(log_of(again))) == 11
        seen_steps = {**curve(log_of(task)), **curve(log_of(again))}
        assert seen_steps == pytest.approx(one_process(tmp_path, 20), rel=1e-9)
        assert owner.ask("KEYS", "*") == [b"somebody-elses"]
        owner.close()


def test_a_killed_service_is_started_again(fields: Any, tmp_path: Path) -> None:
    field = fields()
    task = training(field, tmp_path, STEPS="30", PAUSE="0.2")
    handle = field.launch(task)
    field.wait(handle, lambda status: status.progress.steps >= 7)
    os.kill(service_pid(field), signal.SIGKILL)
    status = field.wait(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert curve(log_of(task)) == pytest.approx(one_process(tmp_path, 30), rel=1e-9)


def test_an_object_store_that_is_away_for_a_while_costs_nothing(fields: Any, tmp_path: Path) -> None:
    field = fields()
    task = training(field, tmp_path, STEPS="25", PAUSE="0.2")
    handle = field.launch(task)
    field.wait(handle, lambda status: status.progress.steps >= 4)
    folder = field.cloud.home / "objects" / "task-1"
    folder.rename(folder.with_name("away"))
    folder.write_text("no folder")  # whatever is read or written there now fails
    time.sleep(1.5)
    folder.unlink()
    folder.with_name("away").rename(folder)
    status = field.wait(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert (field.state(handle).generation, status.progress.samples) == (1, 25 * 32)


def test_a_program_that_saves_nothing_in_a_whole_function_is_told(fields: Any) -> None:
    field = fields(duration_seconds=3, margin_seconds=1.0)
    status = field.run(field.task("sleep 1000"))
    assert status.state is TaskState.FAILED
    assert "no checkpoint was committed" in status.reason


def test_a_runner_that_cannot_begin_is_told_and_not_started_again_and_again(fields: Any) -> None:
    field = fields()
    task = field.task("true")
    files = TaskFiles.of(field.cloud.home, task.id)
    files.root.mkdir(parents=True)
    files.write_secrets({})
    files.write_private("settings.json", to_json(FunctionsSettings(objects="ftp://nowhere")))
    files.write_spec(Spec(task, field.deployment(), str(field.cloud.home), time.time()))
    status = field.wait(task.id)
    assert status.state is TaskState.FAILED
    assert "is not an object store" in status.reason


def test_an_object_store_that_cannot_be_written_to_is_refused_before_anything_is_paid(
    fields: Any, tmp_path: Path
) -> None:
    (tmp_path / "in-the-way").write_text("no folder")
    field = fields(objects=(tmp_path / "in-the-way").as_uri())
    with pytest.raises(CloudError, match="The object store cannot be used"):
        field.launch(field.task("true"))
    assert list(field.cloud.owned()) == []


def test_an_object_store_that_turns_read_only_is_no_loss_of_functions(fields: Any, tmp_path: Path) -> None:
    field = fields(lost_seconds=10.0)
    task = training(field, tmp_path, STEPS="80", PAUSE="0.2")
    handle = field.launch(task)
    field.wait(handle, lambda status: status.progress.steps >= 4)
    drafts = field.cloud.home / "objects" / "task-1" / ".mlcd"
    drafts.rename(drafts.with_name(".aside"))  # objects can still be read, and none can be written
    drafts.write_text("no folder")
    time.sleep(12.0)  # longer than a function may be silent
    drafts.unlink()
    drafts.with_name(".aside").rename(drafts)
    status = field.wait(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert (field.state(handle).losses, field.state(handle).generation) == (0, 1)


def test_lost_functions_are_told(fields: Any, tmp_path: Path) -> None:
    field = fields()
    task = training(field, tmp_path, STEPS="30", PAUSE="0.2")
    handle = field.launch(task)
    field.wait(handle, lambda status: status.progress.steps >= 7)
    kill_one(field, random.Random(1))
    status = field.wait(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    (note,) = status.notes
    assert note.startswith("lost: rank 0")


def test_what_the_program_hands_back_comes_home(fields: Any, tmp_path: Path) -> None:
    field = fields()
    workdir = tmp_path / "program"
    workdir.mkdir()
    (workdir / "data.txt").write_text("42")
    run = 'cp data.txt "$MLCD_OUTPUT_DIR"/answer; cp data.txt model.pt; echo "$TOKEN" | wc -c'
    task = field.task(run, workdir=str(workdir))
    status = field.run(task, TOKEN="abc")
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    outputs = Path(task.folder) / "outputs"
    assert {path.name: path.read_text() for path in outputs.iterdir()} == {"answer": "42", "model.pt": "42"}
    assert log_of(task).strip() == "4"
    assert list((field.cloud.home / "objects" / "task-1").glob("[!.]*/**/*.*")) == []


def test_more_memory_than_the_function_has_is_told(fields: Any) -> None:
    field = fields()
    task = field.task("python -c 'import time; x = b\"1\" * (400 << 20); time.sleep(30)'")
    status = field.run(task, memory_mb=256)
    assert (status.state, status.reason) == (TaskState.FAILED, "out of memory")


def test_checkpoints_of_earlier_attempts_are_gone_on_from(fields: Any, tmp_path: Path) -> None:
    field = fields()
    task = training(field, tmp_path, STEPS="10")
    assert field.run(task).state is TaskState.SUCCEEDED
    later = Field(tmp_path / "home-later")
    again = training(later, tmp_path, STEPS="20")
    again = replace(again, checkpoints=task.checkpoints, samples_before=10 * 32)
    try:
        status = later.run(again)
    finally:
        later.end_everything()
    assert status.state is TaskState.SUCCEEDED, (status, log_of(again))
    assert min(curve(log_of(again))) == 11
    newest = newest_intact(Path(task.checkpoints))
    assert newest is not None
    assert int(np.load(newest.path / "state.npz")["step"]) == 20


SAVES_BY_ITSELF = """
import os, pathlib, time
import mlcd
place = pathlib.Path("kept/state")
done = int(place.read_text()) if place.exists() else 0
for number, batch in enumerate(mlcd.steps([[0] * 10] * ((1500 - done) // 10))):
    time.sleep(0.01)
    done += 10
    if number % 50 == 37:
        os.makedirs("kept", exist_ok=True)
        pathlib.Path("kept/draft").write_text(str(done))
        os.replace("kept/draft", "kept/state")
        time.sleep(0.3)
time.sleep(2.5)
"""


def test_what_a_program_saves_by_itself_gets_the_count_at_its_save(fields: Any, tmp_path: Path) -> None:
    field = fields()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(SAVES_BY_ITSELF)
    task = field.task("python train.py", workdir=str(tmp_path / "work"), checkpoint_path="kept")
    status = field.run(task)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    found = complete_checkpoints(Path(task.checkpoints))
    assert found
    assert [one.facts.samples for one in found] == [float((one.path / "state").read_text()) for one in found]
    assert status.progress.samples == 1500


def test_what_a_program_has_opened_and_not_yet_written_is_not_committed(fields: Any) -> None:
    field = fields()
    save = "mkdir kept; exec 3> kept/weights; sleep 3; echo weights >&3; exec 3>&-; sleep 3"
    task = field.task(save, checkpoint_path="kept")
    status = field.run(task)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    found = complete_checkpoints(Path(task.checkpoints))
    assert [(one.path / "weights").read_text() for one in found] == ["weights\n"]


def children(pid: int) -> list[int]:
    return [process.pid for process in seen() if process.parent == pid]


def service_pid(field: Field) -> int:
    known = json.loads((field.cloud.home / "service" / "service.json").read_text())
    return int(known["pid"])
