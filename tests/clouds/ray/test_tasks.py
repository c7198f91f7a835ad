"""Tasks on a Ray cluster: several nodes, what comes home, and what survives the loss of a node or of a runner."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from clouds.ray.conftest import add_node
from mlcd.clouds.checkpoints import newest_complete, samples_of
from mlcd.clouds.ray.settings import RaySettings
from mlcd.core.machines import Deployment, Offer
from mlcd.core.task import Handle, Task, TaskFolder, TaskKind, TaskState, TaskStatus
from mlcd.settings import Settings

pytestmark = pytest.mark.slow

SAVING = """
import os, time
import mlcd
saved = mlcd.last_checkpoint()
done = int((saved / "done").read_text()) if saved else 0
print("from", done, flush=True)
while done < 1000 and not mlcd.stopping():
    time.sleep(0.05)
    done += 1
    mlcd.report(step=done, samples=done)
    if done % 10 == 0:
        with mlcd.checkpoint() as folder:
            (folder / "done").write_text(str(done))
"""


class Rented:
    """The cluster with small tasks on it."""

    def __init__(self, home: Path, settings: RaySettings) -> None:
        from mlcd.clouds.ray import open_cloud

        self.home = home
        self.cloud = open_cloud(replace(Settings(home=home), clouds=(settings,)), {})

    def task(self, run: str, number: int = 1, **changes: Any) -> Task:
        folder = self.home / "jobs" / f"task-{number}"
        task = Task(f"task-{number}", "job", TaskKind.TRAINING, "command", run, folder=str(folder))
        return replace(task, checkpoints=str(self.home / "checkpoints"), grace_seconds=5.0, **changes)

    def offer(self, name: str = "ray-1c") -> Offer:
        return next(offer for offer in self.cloud.offers() if offer.instance.name == name)

    def launch(self, task: Task, nodes: int = 1, offer: str = "ray-1c") -> Handle:
        return self.cloud.launch(task, Deployment(self.offer(offer), nodes), {"TOKEN": "hush"})

    def wait(
        self, handle: Handle, condition: Callable[[TaskStatus], bool] = lambda status: status.state.ended
    ) -> TaskStatus:
        deadline = time.monotonic() + 180
        while not condition(status := self.cloud.status(handle)):
            assert not status.state.ended, f"it ended before what was awaited: {status}"
            assert time.monotonic() < deadline, f"did not come in time: {status}"
            time.sleep(0.1)
        return status

    def text(self, task: Task, node: int = 0) -> str:
        return TaskFolder(Path(task.folder)).log(node).read_text()


@pytest.fixture
def rented(tmp_path: Path, ray_settings: RaySettings) -> Iterator[Rented]:
    """A cloud with nothing on it; what a test leaves is ended."""
    rented = Rented(tmp_path, ray_settings)
    yield rented
    for owned in rented.cloud.owned():
        rented.cloud.stop(owned.handle)
        rented.wait(owned.handle)
    rented.cloud.close()


def test_two_nodes_know_each_other_and_hand_back_what_they_made(rented: Rented, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "words").write_text("hello")
    task = rented.task(
        'echo "$NODE_RANK of $SKYPILOT_NUM_NODES $(cat words) $TOKEN"; echo $RANK > $MLCD_OUTPUT_DIR/$RANK.txt',
        workdir=str(tmp_path / "work"),
        setup="touch prepared",
    )
    status = rented.wait(rented.launch(task, nodes=2))
    assert status.state is TaskState.SUCCEEDED, (status, rented.text(task))
    assert rented.text(task, 1).splitlines()[-1] == "1 of 2 hello hush"
    outputs = TaskFolder(Path(task.folder)).outputs
    assert sorted(path.name for path in outputs.iterdir()) == ["0.txt", "1.txt"]
    assert status.charges[0].what == "2 × ray-1c"


def test_a_custom_resource_leads_to_the_node_that_has_it(rented: Rented) -> None:
    assert rented.offer("ray-scratch-1c").max_nodes == 1
    task = rented.task("echo done")
    assert rented.wait(rented.launch(task, offer="ray-scratch-1c")).state is TaskState.SUCCEEDED


def test_a_lost_node_ends_the_task_as_lost_and_the_next_one_goes_on(rented: Rented, cluster: Any) -> None:
    doomed = add_node(cluster, resources={"doomed": 1})
    cluster.wait_for_nodes()
    (rented.home / "work").mkdir()
    (rented.home / "work" / "train.py").write_text(SAVING)
    task = rented.task("python train.py", workdir=str(rented.home / "work"), samples=1000.0)
    handle = rented.launch(task, offer="ray-doomed-1c")
    rented.wait(handle, lambda _: newest_complete(rented.home / "checkpoints") is not None)
    cluster.remove_node(doomed, allow_graceful=False)
    status = rented.wait(handle)
    assert status.state is TaskState.LOST, status
    assert [owned.handle for owned in rented.cloud.owned()] == []
    kept = newest_complete(rented.home / "checkpoints")
    assert kept is not None
    assert samples_of(kept) >= 10

    again = replace(task, id="task-2", folder=str(rented.home / "jobs" / "task-2"))
    second = rented.launch(again)
    rented.wait(second, lambda status: status.progress.samples > 0)
    rented.cloud.stop(second)
    assert rented.wait(second).state is TaskState.STOPPED
    assert int(rented.text(again).split()[1]) >= 10


def test_a_runner_that_is_killed_is_replaced_and_nothing_starts_twice(rented: Rented) -> None:
    task = rented.task("echo begin; sleep 6; echo end")
    handle = rented.launch(task)
    rented.wait(handle, lambda status: status.state is TaskState.RUNNING)
    for process in runners(rented.home):
        process.kill()
        process.wait(10)
    status = rented.wait(handle)
    assert status.state is TaskState.SUCCEEDED, status
    assert rented.text(task).split() == ["begin", "end"]


def test_what_nobody_asks_for_is_given_back_when_its_lease_is_over(tmp_path: Path, ray_settings: RaySettings) -> None:
    left_alone = Rented(tmp_path, replace(ray_settings, lease_seconds=8.0))
    task = left_alone.task("sleep 1000")
    handle = left_alone.launch(task)
    left_alone.wait(handle, lambda status: status.state is TaskState.RUNNING)
    for process in runners(left_alone.home):
        process.kill()
        process.wait(10)
    deadline = time.monotonic() + 90
    while list(left_alone.cloud.owned()):
        assert time.monotonic() < deadline, "it is still rented"
        time.sleep(0.2)
    assert left_alone.wait(handle).state is TaskState.LOST
    left_alone.cloud.close()


def runners(home: Path) -> list[psutil.Process]:
    """Those at work on this home's tasks."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "mlcd.clouds.tasks.runner" in line and any(str(home) in part for part in line):
            found.append(process)
    return found


def test_a_cluster_that_is_not_there_is_said(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="pip install 'mlcd[ray]'")
    from mlcd.errors import CloudError

    cloud = Rented(tmp_path, RaySettings(address="127.0.0.1:1")).cloud
    with pytest.raises(CloudError, match="does not answer"):
        list(cloud.offers())
    cloud.close()


def test_this_process_still_ends_as_it_did_when_told_to(tmp_path: Path, ray_settings: RaySettings) -> None:
    before = signal.getsignal(signal.SIGTERM)
    cloud = Rented(tmp_path, ray_settings).cloud
    assert list(cloud.offers())
    assert signal.getsignal(signal.SIGTERM) is before
    cloud.close()
