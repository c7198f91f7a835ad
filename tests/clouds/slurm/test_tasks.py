"""Tasks on a real Slurm cluster: several nodes, the queue, and what survives whom."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from mlcd.clouds.checkpoints import newest_complete, samples_of
from mlcd.clouds.slurm import open_cloud
from mlcd.clouds.slurm.script import job_name
from mlcd.clouds.slurm.settings import SlurmSettings
from mlcd.core.machines import Deployment, Offer
from mlcd.core.task import EndCause, Handle, Task, TaskFolder, TaskKind, TaskState, TaskStatus
from mlcd.errors import NoCapacityError
from mlcd.settings import Settings
from slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]

PATIENCE_SECONDS = 150.0
SAVING = """
import mlcd, time
saved = mlcd.last_checkpoint()
done = int((saved / "done").read_text()) if saved else 0
print("from", done, flush=True)
while done < 5000 and not mlcd.stopping():
    time.sleep(0.05)
    done += 1
    mlcd.report(step=done, samples=done)
    if done == 20:
        with mlcd.checkpoint() as folder:
            (folder / "done").write_text(str(done))
with mlcd.checkpoint() as folder:
    (folder / "done").write_text(str(done))
"""


class Rented:
    """The cluster with small tasks on it."""

    def __init__(self, home: Path, settings: SlurmSettings) -> None:
        self.home = home
        self.cloud = open_cloud(replace(Settings(home=home), clouds=(settings,)), {})

    def task(self, run: str, number: int = 1, **changes: Any) -> Task:
        folder = self.home / "jobs" / f"task-{number}"
        task = Task(f"{self.home.name}-{number}", "job", TaskKind.TRAINING, "command", run, folder=str(folder))
        return replace(task, checkpoints=str(self.home / "checkpoints"), grace_seconds=5.0, **changes)

    def saving(self, number: int = 1) -> Task:
        """One that saves at its 20th step, and once more when it is asked to end."""
        (self.home / "work").mkdir(exist_ok=True)
        (self.home / "work" / "train.py").write_text(SAVING)
        return self.task("python train.py", number, workdir=str(self.home / "work"), samples=5000.0)

    def offer(self, partition: str = "main") -> Offer:
        return next(offer for offer in self.cloud.offers() if offer.instance.name == f"{partition}+small")

    def launch(self, task: Task, nodes: int = 1, partition: str = "main") -> Handle:
        return self.cloud.launch(task, Deployment(self.offer(partition), nodes), {"TOKEN": "hush"})

    def wait(
        self, handle: Handle, condition: Callable[[TaskStatus], bool] = lambda status: status.state.ended
    ) -> TaskStatus:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition(status := self.cloud.status(handle)):
            assert not status.state.ended, f"it ended before what was awaited: {status}"
            assert time.monotonic() < deadline, f"did not come in time: {status}"
            time.sleep(0.2)
        return status

    def saved(self) -> float:
        """Samples in the newest checkpoint at home."""
        newest = newest_complete(self.home / "checkpoints")
        return samples_of(newest) if newest is not None else 0.0

    def text(self, task: Task, node: int = 0) -> str:
        return TaskFolder(Path(task.folder)).log(node).read_text()

    def runners(self) -> list[psutil.Process]:
        """Those at work on this home's tasks."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            if "mlcd.clouds.tasks.runner" in line and any(str(self.home) in part for part in line):
                found.append(process)
        return found

    def kill_runners(self) -> None:
        for process in self.runners():
            process.kill()
            process.wait(10)


@pytest.fixture
def rented(tmp_path: Path, slurm_settings: SlurmSettings) -> Iterator[Rented]:
    """A cloud with nothing on it; what a test leaves is ended."""
    rented = Rented(tmp_path, slurm_settings)
    yield rented
    for owned in rented.cloud.owned():
        rented.cloud.stop(owned.handle)
        rented.wait(owned.handle)
    rented.cloud.close()


def submitted(cluster: SlurmCluster, task: Task) -> list[str]:
    """All jobs that were ever submitted for a task, and that Slurm still knows."""
    return cluster.command("squeue", "-h", "--states=all", f"--name={job_name(task.id)}", "-o", "%i").split()


def test_two_nodes_know_each_other_and_hand_back_what_they_made(rented: Rented, cluster: SlurmCluster) -> None:
    (rented.home / "work").mkdir()
    (rented.home / "work" / "words").write_text("hello")
    task = rented.task(
        'echo "$NODE_RANK of $SKYPILOT_NUM_NODES on $SLURMD_NODENAME: $(cat words) $TOKEN"; echo $RANK > $MLCD_OUTPUT_DIR/$RANK.txt',
        workdir=str(rented.home / "work"),
        setup="touch prepared",
    )
    status = rented.wait(rented.launch(task, nodes=2, partition="pair"))
    assert status.state is TaskState.SUCCEEDED, (status, rented.text(task))
    assert rented.text(task, 1).splitlines()[-1] == "1 of 2 on n2: hello hush"
    outputs = TaskFolder(Path(task.folder)).outputs
    assert sorted(path.name for path in outputs.iterdir()) == ["0.txt", "1.txt"]
    assert status.charges[0].what == "2 × pair+small"
    assert status.charges[0].usd == pytest.approx(2 * 0.2 * status.charges[0].seconds / 3600)
    cluster.wait(cluster.all_idle)
    assert list((rented.home / "shared").iterdir()) == []


def test_a_partition_sells_no_more_nodes_than_a_job_may_have(rented: Rented) -> None:
    assert [rented.offer(name).max_nodes for name in ("main", "pair")] == [3, 2]
    with pytest.raises(NoCapacityError):
        rented.launch(rented.task("echo"), nodes=3, partition="pair")


def test_a_job_that_somebody_cancels_is_stopped_with_what_it_had_done(rented: Rented, cluster: SlurmCluster) -> None:
    task = rented.saving()
    handle = rented.launch(task, nodes=2)
    rented.wait(handle, lambda status: status.progress.samples > 30)
    cluster.command("scancel", f"--name={job_name(task.id)}")
    status = rented.wait(handle)
    assert (status.state, status.cause) == (TaskState.STOPPED, EndCause.STOPPED), status
    assert "CANCELLED" in status.reason
    assert rented.saved() > 30


def test_a_preempted_task_saves_and_says_that_its_machine_is_taken(rented: Rented, cluster: SlurmCluster) -> None:
    task = rented.saving()
    handle = rented.launch(task)
    rented.wait(handle, lambda status: status.progress.samples > 30)
    cluster.command("sbatch", "-p", "urgent", "-N", "3", "--exclusive", "--wrap", "sleep 1")
    status = rented.wait(handle)
    assert (status.state, status.cause) == (TaskState.LOST, EndCause.SPOT_NOTICE), status
    assert "PREEMPTED" in status.reason
    assert rented.saved() > 30
    cluster.wait(cluster.all_idle)
    again = rented.saving(2)
    rented.wait(rented.launch(again), lambda status: status.progress.samples > 0)
    assert int(rented.text(again).split()[1]) > 30


def test_an_allocation_is_no_longer_than_its_partition_allows_and_the_task_saves_before(
    rented: Rented, cluster: SlurmCluster
) -> None:
    task = rented.saving()
    handle = rented.launch(task, partition="short")
    rented.wait(handle, lambda status: status.state is TaskState.RUNNING)
    assert cluster.command("squeue", "-h", "-o", "%l") == "1:00"
    status = rented.wait(handle)
    assert (status.state, status.cause) == (TaskState.LOST, EndCause.SPOT_NOTICE), status
    assert "time of the allocation" in status.reason
    assert rented.saved() > 20


def test_an_allocation_is_as_long_as_the_task_may_run(rented: Rented, cluster: SlurmCluster) -> None:
    handle = rented.launch(rented.task("sleep 1000", max_seconds=600.0))
    rented.wait(handle, lambda status: status.state is TaskState.RUNNING)
    assert cluster.command("squeue", "-h", "-o", "%l") == "14:00"  # 600 s, the grace, three minutes


def test_a_task_waits_for_its_turn_free_of_charge(rented: Rented, cluster: SlurmCluster) -> None:
    cluster.command("sbatch", "-N", "3", "--exclusive", "--time=1", "--job-name=other", "--wrap", "sleep 600")
    cluster.wait(lambda: "other" in cluster.command("squeue", "-h", "-t", "R", "-o", "%j"))
    rented.cloud.close()
    patient = Rented(rented.home, replace(settings_of(rented), wait_seconds=600.0))
    handle = patient.launch(patient.task("echo done"))
    time.sleep(4.0)
    status = patient.cloud.status(handle)
    assert (status.state, status.usd, status.started_at) == (TaskState.STARTING, 0.0, None)
    assert [owned.handle for owned in patient.cloud.owned()] == [handle]
    cluster.command("scancel", "--name=other")
    freed_at = time.time()
    status = patient.wait(handle)
    assert status.state is TaskState.SUCCEEDED
    assert status.started_at is not None
    assert status.started_at >= freed_at - 1.0
    patient.cloud.close()


def test_a_queue_that_is_too_long_is_no_capacity_and_nothing_stays_in_it(rented: Rented, cluster: SlurmCluster) -> None:
    cluster.command("sbatch", "-N", "3", "--exclusive", "--time=60", "--job-name=other", "--wrap", "sleep 600")
    cluster.wait(lambda: "other" in cluster.command("squeue", "-h", "-t", "R", "-o", "%j"))
    task = rented.task("echo done")
    with pytest.raises(NoCapacityError, match="expects to start it in"):
        rented.launch(task)
    assert cluster.jobs() == ["other"]
    assert submitted(cluster, task) == []


def test_a_job_that_somebody_cancels_in_the_queue_is_stopped(rented: Rented, cluster: SlurmCluster) -> None:
    cluster.command("sbatch", "-N", "3", "--exclusive", "--time=1", "--job-name=other", "--wrap", "sleep 600")
    cluster.wait(lambda: "other" in cluster.command("squeue", "-h", "-t", "R", "-o", "%j"))
    patient = Rented(rented.home, replace(settings_of(rented), wait_seconds=600.0))
    task = patient.task("echo done")
    handle = patient.launch(task)
    cluster.wait(lambda: job_name(task.id) in cluster.jobs())
    cluster.command("scancel", f"--name={job_name(task.id)}")
    status = patient.wait(handle)
    assert (status.state, status.cause, status.usd) == (TaskState.STOPPED, EndCause.STOPPED, 0.0), status
    patient.cloud.close()


def test_what_another_computer_has_started_is_found_and_ended_by_its_name(
    rented: Rented, cluster: SlurmCluster, tmp_path: Path
) -> None:
    task = rented.task("sleep 1000")
    handle = rented.launch(task)
    rented.wait(handle, lambda status: status.state is TaskState.RUNNING)
    other = Rented(tmp_path / "elsewhere", settings_of(rented))
    (owned,) = other.cloud.owned()
    assert (owned.handle, owned.job_id, owned.what) == (handle, "job", "1 × main+small")
    other.cloud.stop(handle)
    assert list(other.cloud.owned()) == []
    assert rented.wait(handle).state is TaskState.STOPPED


def test_a_task_does_not_notice_that_the_controller_was_away(rented: Rented, cluster: SlurmCluster) -> None:
    task = rented.saving()
    handle = rented.launch(task)
    rented.wait(handle, lambda status: status.progress.samples > 10)
    cluster.kill_controller()
    before = rented.cloud.status(handle).progress.samples
    rented.wait(handle, lambda status: status.progress.samples > before + 60)
    rented.kill_runners()  # the next one finds its task without Slurm's help
    rented.wait(handle, lambda status: status.progress.samples > before + 120)
    cluster.start_controller()
    cluster.wait(lambda: submitted_soon(cluster, task) == 1)
    rented.cloud.stop(handle)
    assert rented.wait(handle).state is TaskState.STOPPED
    assert list(rented.cloud.owned()) == []


def submitted_soon(cluster: SlurmCluster, task: Task) -> int:
    """How many jobs the controller knows for the task; none while it does not answer."""
    done = subprocess.run(
        ["squeue", "-h", f"--name={job_name(task.id)}", "-o", "%i"], capture_output=True, text=True, env=cluster.environ
    )
    return len(done.stdout.split())


def test_a_runner_that_is_killed_at_any_moment_is_replaced_and_one_job_was_submitted(
    rented: Rented, cluster: SlurmCluster
) -> None:
    task = rented.task("echo begin; sleep 4; echo end")
    handle = rented.launch(task)
    for pause in (0.1, 0.3, 0.7, 1.5, 2.5):
        rented.kill_runners()
        rented.cloud.status(handle)
        time.sleep(2.0 + pause)
    status = rented.wait(handle)
    assert status.state is TaskState.SUCCEEDED, status
    assert rented.text(task).split() == ["begin", "end"]
    assert len(submitted(cluster, task)) == 1
    assert list(rented.cloud.owned()) == []


def test_what_nobody_looks_after_ends_when_its_lease_is_over(
    tmp_path: Path, slurm_settings: SlurmSettings, cluster: SlurmCluster
) -> None:
    left_alone = Rented(tmp_path, replace(slurm_settings, lease_seconds=8.0))
    handle = left_alone.launch(left_alone.task("sleep 1000"))
    left_alone.wait(handle, lambda status: status.state is TaskState.RUNNING)
    left_alone.kill_runners()
    cluster.wait(lambda: cluster.jobs() == [], 60.0)
    cluster.wait(lambda: not [line for _, line in cluster.lines() if "1000" in line])
    assert left_alone.wait(handle).state is TaskState.LOST
    left_alone.cloud.close()


def test_a_folder_that_the_nodes_do_not_see_is_said(rented: Rented, cluster: SlurmCluster) -> None:
    cluster.hide(rented.home)
    try:
        handle = rented.launch(rented.task("echo done"))
        status = rented.wait(handle)
    finally:
        cluster.show(rented.home)
    assert (status.state, status.cause) == (TaskState.FAILED, EndCause.REFUSED), status
    assert "slurm.folder" in status.hint
    assert cluster.jobs() == []


def settings_of(rented: Rented) -> SlurmSettings:
    """Those that it was opened with."""
    settings: SlurmSettings = rented.cloud._settings
    return settings


def test_a_job_that_was_submitted_unheard_is_found_and_none_is_submitted_beside_it(
    rented: Rented, cluster: SlurmCluster
) -> None:
    task = rented.task("sleep 1000")
    cluster.command(
        *("sbatch", f"--job-name={job_name(task.id)}", "--dependency=singleton", "--begin=now+60", "--wrap", "sleep 9")
    )  # as if sbatch had been killed unheard, and the job came through late
    handle = rented.launch(task)
    time.sleep(3.0)
    assert len(submitted(cluster, task)) == 1, "what is there is found, and none is submitted"
    rented.cloud.stop(handle)
    assert rented.wait(handle).state is TaskState.STOPPED
    assert cluster.jobs() == []
