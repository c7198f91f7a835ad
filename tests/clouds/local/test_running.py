"""Programs on this computer: what they get, what they leave, and how their end is told."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clouds.local.tools import Computer, log_of, wait_for_text
from mlcd.core.job import Direction, Target
from mlcd.core.task import TaskFolder, TaskState

pytestmark = pytest.mark.slow


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    """This computer; what a test leaves running is ended after it."""
    computer = Computer(tmp_path / "home")
    yield computer
    computer.end_everything()


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """A program's folder."""
    folder = tmp_path / "program"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text("junk")
    (folder / "data").mkdir()
    (folder / "data" / "numbers.txt").write_text("1 2 3")
    return folder


def test_two_nodes_have_their_own_rank_and_working_copy(computer: Computer, workdir: Path) -> None:
    task = computer.task("echo rank=$NODE_RANK; touch mine-$NODE_RANK; sleep 0.3; ls; pwd", workdir=str(workdir))
    assert computer.run(task, nodes=2).state is TaskState.SUCCEEDED
    first, second = log_of(task, 0), log_of(task, 1)
    assert "rank=0" in first
    assert "mine-0" in first
    assert "mine-1" not in first
    assert "rank=1" in second
    assert "mine-1" in second
    assert first.splitlines()[-1] != second.splitlines()[-1]
    assert not (workdir / "mine-0").exists()


def test_all_nodes_of_a_task_know_a_secret_that_no_other_task_knows(computer: Computer) -> None:
    tasks = [computer.task("echo it is $MLCD_TASK_SECRET") for _ in range(2)]
    for task in tasks:
        assert computer.run(task, nodes=2).state is TaskState.SUCCEEDED
    told = [{log_of(task, rank).strip().splitlines()[-1] for rank in range(2)} for task in tasks]
    assert [len(each) for each in told] == [1, 1]
    assert told[0] != told[1]
    assert len(told[0].pop().removeprefix("it is ")) == 32


def test_a_program_that_uses_a_parameter_store_trains_on_two_nodes_and_leaves_nothing(
    computer: Computer, workdir: Path
) -> None:
    program = Path(__file__).parents[3] / "packages/mlcd-functions/tests/numpy_program.py"
    (workdir / "train.py").write_text(program.read_text())
    task = computer.task("python train.py; echo store=$MLCD_SYNC_STORE", workdir=str(workdir))
    status = computer.run(replace(task, envs={"STEPS": "20"}), nodes=2)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert (status.progress.samples, "step 20 loss" in log_of(task)) == (20 * 32, True)
    name = log_of(task).split("store=shm://")[1].strip()
    assert not Path("/dev/shm", f"mlcd-{name}").exists()


def test_a_killed_runner_leaves_no_shared_memory(computer: Computer) -> None:
    hold = (
        "import os, time; from mlcd.sync import join; group = join(); group.barrier(); "
        "print('joined', os.environ['MLCD_SYNC_STORE'], flush=True); time.sleep(100)"
    )
    task = computer.task(f'python -c "{hold}"')
    handle = computer.launch(task, nodes=2)
    wait_for_text(task, "joined shm://")
    name = log_of(task).split("joined shm://")[1].split()[0]
    assert Path("/dev/shm", f"mlcd-{name}").exists()
    os.kill(computer.state(handle).pid, signal.SIGKILL)
    assert computer.wait(handle).state is TaskState.LOST
    assert not Path("/dev/shm", f"mlcd-{name}").exists()


def test_the_working_copy_has_the_data_and_not_the_junk(computer: Computer, workdir: Path) -> None:
    task = computer.task("cat data/numbers.txt; ls -A", workdir=str(workdir))
    assert computer.run(task).state is TaskState.SUCCEEDED
    assert "1 2 3" in log_of(task)
    assert ".git" not in log_of(task)


def test_working_copies_are_gone_after_the_end(computer: Computer, workdir: Path) -> None:
    task = computer.task("true", workdir=str(workdir))
    computer.run(task)
    assert not list(Path(task.folder).rglob("numbers.txt"))


def test_a_home_within_the_workdir_is_not_copied_into_itself(workdir: Path) -> None:
    computer = Computer(workdir / ".mlcd")
    task = computer.task("ls -A", workdir=str(workdir))
    assert computer.run(task).state is TaskState.SUCCEEDED
    assert ".mlcd" not in log_of(task)


def test_mounts_lie_in_the_working_copy(computer: Computer, workdir: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("hello")
    mounts = {"extra/words.txt": str(tmp_path / "words.txt"), "numbers": "data"}
    task = computer.task("cat extra/words.txt numbers/numbers.txt", workdir=str(workdir), file_mounts=mounts)
    computer.run(task)
    assert "hello" in log_of(task)
    assert "1 2 3" in log_of(task)


def test_a_mount_that_is_not_there_is_named(computer: Computer, workdir: Path) -> None:
    task = computer.task("true", workdir=str(workdir), file_mounts={"extra": "nowhere"})
    status = computer.run(task)
    assert status.state is TaskState.FAILED
    assert str(workdir / "nowhere") in status.reason


def test_the_environment_tells_the_program_what_it_needs(computer: Computer, tmp_path: Path) -> None:
    task = computer.task(
        "env",
        envs={"COLOUR": "blue"},
        samples=100.0,
        samples_before=20.0,
        checkpoints=str(tmp_path / "checkpoints"),
        until=Target("loss", 0.5, Direction.DOWN),
    )
    computer.run(task)
    env = dict(line.split("=", 1) for line in log_of(task).splitlines() if "=" in line)
    assert env["COLOUR"] == "blue"
    assert env["MLCD_TASK_ID"] == task.id
    assert env["MLCD_JOB_ID"] == "job"
    assert env["OMP_NUM_THREADS"] == "1"
    assert env["MLCD_CHECKPOINT_DIR"] == task.checkpoints
    assert float(env["MLCD_WORK_SAMPLES"]) == 120
    assert float(env["MLCD_SAMPLES_BEFORE"]) == 20
    assert json.loads(env["MLCD_TARGET"]) == {"metric": "loss", "value": 0.5, "direction": "down"}


def test_a_node_keeps_to_its_cores(computer: Computer) -> None:
    task = computer.task("python -c 'import os; print(len(os.sched_getaffinity(0)), \"core\")'")
    computer.run(task)
    assert "1 core" in log_of(task)


def test_setup_runs_before_the_program(computer: Computer) -> None:
    task = computer.task("cat made", setup="echo by-setup > made")
    status = computer.run(task)
    assert "by-setup" in log_of(task)
    assert status.setup_at is not None
    assert status.running_at is not None
    assert status.setup_at <= status.running_at


def test_a_failing_setup_fails_the_task(computer: Computer) -> None:
    task = computer.task("echo never", setup="echo no such package; exit 4")
    status = computer.run(task)
    assert (status.state, status.exit_code) == (TaskState.FAILED, 4)
    assert status.reason == "setup ended with exit code 4 on node 0"
    assert "never" not in log_of(task)


def test_exit_3_is_told_with_the_end_of_the_log(computer: Computer) -> None:
    status = computer.run(computer.task("for i in $(seq 100); do echo line $i; done; exit 3"))
    assert (status.state, status.exit_code) == (TaskState.FAILED, 3)
    assert status.log_tail.splitlines() == [f"line {number}" for number in range(71, 101)]
    assert status.usd > 0


def test_when_one_node_fails_the_others_are_ended(computer: Computer) -> None:
    task = computer.task('if [ "$NODE_RANK" = 1 ]; then echo broken; exit 5; else sleep 1000; fi')
    status = computer.run(task, nodes=2)
    assert (status.state, status.exit_code) == (TaskState.FAILED, 5)
    assert "on node 1" in status.reason
    assert "broken" in status.log_tail


def test_a_memory_hog_runs_out_of_its_share(computer: Computer) -> None:
    task = computer.task("exec python -c 'import time; hog = b\"x\" * 300_000_000; time.sleep(1000)'")
    status = computer.wait(computer.launch(task, memory_gib=0.2))
    assert (status.state, status.reason) == (TaskState.FAILED, "out of memory")
    assert "its share is 0.20 GiB" in status.log_tail
    assert status.progress.usage.peak_memory_gib > 0.2


@pytest.mark.parametrize("last_words", ["MemoryError", "torch.OutOfMemoryError: CUDA out of memory.", "std::bad_alloc"])
def test_a_program_that_says_so_ran_out_of_memory(computer: Computer, last_words: str) -> None:
    status = computer.run(computer.task(f"echo '{last_words}'; exit 1"))
    assert (status.state, status.reason) == (TaskState.FAILED, "out of memory")


def test_a_node_killed_from_outside_is_lost(computer: Computer) -> None:
    status = computer.run(computer.task("kill -9 $$"))
    assert status.state is TaskState.LOST
    assert status.reason == "node 0 was killed from outside"


def test_a_hang_ends_at_the_time_limit_even_if_it_ignores_sigterm(computer: Computer) -> None:
    task = computer.task("trap '' TERM; while true; do sleep 0.1; done", max_seconds=0.5, grace_seconds=0.5)
    status = computer.run(task)
    assert (status.state, status.reason, status.exit_code) == (TaskState.STOPPED, "time limit", 137)
    assert status.started_at is not None
    assert status.ended_at is not None
    assert status.ended_at - status.started_at < 3


def test_a_stopped_program_may_save_within_its_grace(computer: Computer) -> None:
    script = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), print('saved'), sys.exit()))\n"
    task = computer.task(f"python -c \"{script}print('ready'); time.sleep(1000)\"\necho went on", grace_seconds=10.0)
    handle = computer.launch(task)
    wait_for_text(task, "ready")
    computer.cloud.stop(handle)
    status = computer.wait(handle)
    assert (status.state, status.exit_code) == (TaskState.STOPPED, 0)
    assert "saved" in log_of(task)
    assert "went on" not in log_of(task)


def test_outputs_are_what_the_program_made(computer: Computer, workdir: Path) -> None:
    (workdir / "old.pt").write_text("from before")
    (workdir / "changed.pt").write_text("before")
    run = "mkdir -p deep; echo new > deep/model.pt; echo after > changed.pt; echo x > notes.txt; echo y > $MLCD_OUTPUT_DIR/z"
    task = computer.task(run, workdir=str(workdir))
    computer.run(task)
    outputs = TaskFolder(Path(task.folder)).outputs
    found = {str(file.relative_to(outputs)) for file in outputs.rglob("*") if file.is_file()}
    assert found == {"deep/model.pt", "changed.pt", "z"}
    assert (outputs / "changed.pt").read_text() == "after\n"


def test_outputs_can_be_named(computer: Computer) -> None:
    task = computer.task("mkdir out; echo a > out/a.bin; echo b > b.pt", outputs=("out/",))
    computer.run(task)
    outputs = TaskFolder(Path(task.folder)).outputs
    assert [str(file.relative_to(outputs)) for file in outputs.rglob("*.*")] == ["out/a.bin"]


def test_a_task_waits_free_of_charge_until_cores_are_free(computer: Computer) -> None:
    busy = computer.launch(computer.task("sleep 1000"), nodes=3)
    computer.wait_until_running(busy)
    waiting = computer.launch(computer.task("true"), nodes=2)
    still = computer.wait(waiting, lambda status: status.state is TaskState.STARTING)
    assert still.usd == 0
    assert [owned.handle for owned in computer.cloud.owned()] == [busy, waiting]
    computer.cloud.stop(busy)
    assert computer.wait(waiting).state is TaskState.SUCCEEDED
