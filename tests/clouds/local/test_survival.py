"""Tasks on this computer outlive who launched them, start once, and leave nothing behind when killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clouds.local.tools import Computer, log_of, one_core, wait_for_death, wait_for_text
from mlcd.clouds.local.files import Spec, TaskFiles
from mlcd.clouds.tasks.processes import seen
from mlcd.core.serial import to_json
from mlcd.core.task import Task, TaskState

pytestmark = pytest.mark.slow

LAUNCH = """
import sys
from pathlib import Path
from mlcd.clouds.local.cloud import LocalCloud
from mlcd.core.machines import Deployment
from mlcd.core.serial import from_json
from mlcd.core.task import Task
from mlcd.clouds.local.settings import LocalSettings
from mlcd.settings import Settings
cloud = LocalCloud(Settings(home=Path(sys.argv[1]), clouds=(LocalSettings(cores=4),)))
task, deployment = from_json(Task, sys.argv[2]), from_json(Deployment, sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
print(cloud.launch(task, deployment, {"TOKEN": "s3cret"}), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    """This computer; what a test leaves running is ended after it."""
    computer = Computer(tmp_path / "home")
    yield computer
    computer.end_everything()


def launcher(computer: Computer, task: Task) -> subprocess.Popen[str]:
    """Another process that launches the task when it is told to, and then waits."""
    command = [sys.executable, "-c", LAUNCH, str(computer.home), to_json(task), to_json(one_core())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def tell(process: subprocess.Popen[str]) -> None:
    """Let it go on."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def end(process: subprocess.Popen[str]) -> None:
    """Kill it, and let go of its pipes."""
    process.kill()
    process.communicate()


def test_a_training_survives_the_death_of_who_launched_it(computer: Computer) -> None:
    task = computer.task("sleep 0.7; echo still here; echo model > model.pt")
    process = launcher(computer, task)
    tell(process)
    computer.wait_until_known(task.id)
    end(process)
    assert computer.wait(task.id).state is TaskState.SUCCEEDED
    assert "still here" in log_of(task)


def test_launched_by_many_at_the_same_moment_it_starts_once(computer: Computer, tmp_path: Path) -> None:
    task = computer.task(f"echo started >> {tmp_path}/starts; sleep 0.3")
    processes = [launcher(computer, task) for _ in range(4)]
    for process in processes:
        tell(process)
    computer.wait_until_known(task.id)
    assert computer.wait(task.id).state is TaskState.SUCCEEDED
    for process in processes:
        end(process)
    assert (tmp_path / "starts").read_text() == "started\n"


def test_killed_at_any_moment_of_the_launch_it_starts_once(computer: Computer, tmp_path: Path) -> None:
    for number, delay in enumerate([0.0, 0.003, 0.02, 0.05, 0.1]):
        starts = tmp_path / f"starts-{number}"
        task = computer.task(f"echo started $TOKEN >> {starts}")
        process = launcher(computer, task)
        tell(process)
        time.sleep(delay)
        end(process)
        computer.launch(task, TOKEN="s3cret")
        assert computer.wait(task.id).state is TaskState.SUCCEEDED
        assert starts.read_text() == "started s3cret\n"


def test_whoever_asks_during_the_launch_hears_that_it_starts(
    computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, write = computer.task("true"), TaskFiles.write_spec
    another, heard = Computer(computer.home).cloud, [TaskState.LOST]

    def ask_around(files: TaskFiles, spec: Spec) -> None:
        heard[:] = [another.status(task.id).state]
        write(files, spec)
        heard.append(another.status(task.id).state)

    monkeypatch.setattr(TaskFiles, "write_spec", ask_around)
    handle = computer.launch(task)
    assert heard == [TaskState.STARTING, TaskState.STARTING]
    assert computer.wait(handle).state is TaskState.SUCCEEDED


def test_a_runner_killed_with_9_leaves_no_process_and_the_task_is_lost(computer: Computer) -> None:
    task = computer.task("(setsid sleep 1000 &) ; echo begun; sleep 1000; true")
    handle = computer.launch(task)
    wait_for_text(task, "begun")
    os.kill(computer.state(handle).pid, signal.SIGKILL)
    status = computer.wait(handle)
    assert status.state is TaskState.LOST
    assert "runner was killed" in status.reason
    assert "begun" in status.log_tail
    assert computer.processes(handle) == []
    assert computer.cloud.status(handle).usd == status.usd > 0
    assert list(computer.cloud.owned()) == []


def test_the_guard_ends_what_is_left_though_no_one_asks(computer: Computer) -> None:
    task = computer.task("sleep 1000 & (setsid sleep 1000 &); echo begun; wait")
    handle = computer.launch(task)
    wait_for_text(task, "begun")
    pids = computer.processes(handle)
    assert len(pids) >= 3
    os.kill(computer.state(handle).pid, signal.SIGKILL)
    for pid in pids:
        wait_for_death(pid)


@pytest.mark.parametrize("way", ["status", "stop"])
def test_with_runner_and_guard_killed_asking_ends_what_is_left(computer: Computer, way: str) -> None:
    task = computer.task("(setsid sleep 1000 &) ; echo begun; sleep 1000; true")
    handle = computer.launch(task)
    wait_for_text(task, "begun")
    runner = computer.state(handle).pid
    guards = [
        process.pid for process in seen() if process.parent == runner and process.pid not in computer.processes(handle)
    ]
    for pid in [*guards, runner]:
        os.kill(pid, signal.SIGKILL)
    wait_for_death(runner)
    assert [owned.handle for owned in computer.cloud.owned()] == [handle]
    getattr(computer.cloud, way)(handle)
    assert computer.processes(handle) == []
    assert list(computer.cloud.owned()) == []
    assert computer.cloud.status(handle).state is TaskState.LOST


def test_what_a_program_leaves_in_the_background_ends_with_it(computer: Computer) -> None:
    task = computer.task("(setsid sleep 1000 &); echo done")
    handle = computer.launch(task)
    assert computer.wait(handle).state is TaskState.SUCCEEDED
    assert computer.processes(handle) == []


def test_stopping_ends_every_process(computer: Computer) -> None:
    task = computer.task("(setsid sleep 1000 &); sleep 1000 & echo begun; wait")
    handle = computer.launch(task, nodes=2)
    wait_for_text(task, "begun", node=1)
    computer.cloud.stop(handle)
    assert computer.wait(handle).state is TaskState.STOPPED
    assert computer.processes(handle) == []


def test_a_task_whose_folder_is_removed_ends_itself(computer: Computer) -> None:
    task = computer.task("echo begun; sleep 1000")
    handle = computer.launch(task)
    wait_for_text(task, "begun")
    pids = computer.processes(handle)
    shutil.rmtree(TaskFiles.of(computer.cloud.home, handle).root)
    for pid in pids:
        wait_for_death(pid)
    assert computer.cloud.status(handle).state is TaskState.LOST


def test_secrets_are_in_no_file_and_no_command_line(computer: Computer) -> None:
    task = computer.task("test ${#PASSWORD} = 18 && echo got it; sleep 1000")
    handle = computer.launch(task, PASSWORD="zebra-crossing-4711"[:18])
    wait_for_text(task, "got it")
    time.sleep(0.6)  # a state or two more is written
    lines = [command_line(process.pid) for process in seen() if process.pid != os.getpid()]
    assert any(b"got it" in line for line in lines), "the task's own processes are among them"
    assert not any(b"zebra-crossing" in line for line in lines)
    computer.cloud.stop(handle)
    computer.wait(handle)
    files = [file for file in computer.home.rglob("*") if file.is_file()]
    assert len(files) > 5
    assert not [file for file in files if b"zebra-crossing" in file.read_bytes()]


def command_line(pid: int) -> bytes:
    """Of a process that may have ended since it was listed: then nothing."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of four megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("after", ["exit 1", "sleep 1000"])
def test_a_full_disk_is_told(small_disk: Path, after: str) -> None:
    computer = Computer(small_disk / "home")
    task = computer.task(f"head -c 9000000 /dev/zero > fill; {after}")
    status = computer.run(task)
    assert status.state is TaskState.FAILED
    assert "no space left" in status.reason
    assert list(computer.cloud.owned()) == []


def test_a_disk_filled_from_outside_is_told_and_ends_the_task(small_disk: Path) -> None:
    computer = Computer(small_disk / "home")
    task = computer.task("echo begun; sleep 1000")
    handle = computer.launch(task)
    wait_for_text(task, "begun")
    subprocess.run(["dd", "if=/dev/zero", f"of={small_disk}/fill", "bs=4096"], capture_output=True, check=False)
    status = computer.wait(handle)
    assert status.state is TaskState.FAILED
    assert "no space left" in status.reason
