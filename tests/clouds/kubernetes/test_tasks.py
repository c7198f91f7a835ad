"""Tasks in pods, with real runners and agents: what is refused, taken away, stopped, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clouds.kubernetes.conftest import Cluster, node
from mlcd.clouds.kubernetes.cloud import KubernetesCloud
from mlcd.core.machines import Deployment
from mlcd.core.task import Handle, Refusal, Task, TaskFolder, TaskKind, TaskState, TaskStatus

pytestmark = pytest.mark.slow

SAVES_WHEN_TOLD = """
trap 'sleep 1; echo saved > saved/state; echo "saved it"; exit 0' TERM
mkdir -p saved; echo ready
while true; do sleep 0.2; done
"""


class Running:
    """The cluster as a cloud, with small tasks on it."""

    def __init__(self, home: Path, cluster: Cluster, **settings: Any) -> None:
        self.home = home
        self.cluster = cluster
        self.cloud = KubernetesCloud(home, replace(cluster.settings, **settings))

    def launch(self, run: str, nodes: int = 1, **changes: Any) -> Handle:
        folder = self.home / "jobs" / "task-1"
        task = Task("task-1", "job-1", TaskKind.TRAINING, "command", run, folder=str(folder), grace_seconds=5.0)
        task = replace(task, checkpoints=str(self.home / "checkpoints"), **changes)
        offer = next(iter(self.cloud.offers()))
        return self.cloud.launch(task, Deployment(replace(offer, max_nodes=9), nodes), {})

    def wait(
        self, handle: Handle, condition: Callable[[TaskStatus], bool] = lambda status: status.state.ended
    ) -> TaskStatus:
        give_up_at = time.monotonic() + 120
        while not condition(status := self.cloud.status(handle)):
            assert not status.state.ended, f"it ended before what was awaited: {status}"
            assert time.monotonic() < give_up_at, f"did not come in time: {status}"
            time.sleep(0.1)
        return status

    def log(self, rank: int = 0) -> str:
        file = TaskFolder(self.home / "jobs" / "task-1").log(rank)
        return file.read_text() if file.exists() else ""


@pytest.fixture
def running(tmp_path: Path, cluster: Cluster) -> Iterator[Running]:
    made = Running(tmp_path / "home", cluster, wait_seconds=3600.0)
    yield made
    cluster.configure(rights=["*"])
    for owned in made.cloud.owned():
        made.cloud.stop(owned.handle)


def test_a_refused_exec_ends_the_task_with_the_reason_and_gives_the_pod_back(running: Running) -> None:
    running.cluster.forbid("create pods/exec")
    status = running.wait(running.launch("echo never"))
    assert (status.state, status.refused) == (TaskState.FAILED, Refusal.USER)
    assert 'cannot create resource "pods/exec"' in status.reason
    assert "docs/how-to/kubernetes.md" in status.hint
    assert status.usd > 0
    assert running.cluster.objects("jobs") == []


def test_rights_lost_on_the_way_are_told_with_the_loss(running: Running) -> None:
    handle = running.launch("sleep 1000")
    running.wait(handle, lambda status: status.state is TaskState.RUNNING)
    running.cluster.forbid("create pods/exec")
    for pod in running.cluster.objects("pods"):  # the session that is open is cut
        running.cluster.cut(pod["metadata"]["name"])
    status = running.wait(handle)
    assert status.state is TaskState.LOST
    assert 'cannot create resource "pods/exec"' in status.reason


def test_a_task_is_stopped_while_its_pods_wait_for_a_node(running: Running) -> None:
    running.cluster.add(node("n2", pool="other"))
    handle = running.launch("echo never", nodes=2)
    status = running.wait(handle, lambda status: status.usd > 0)
    assert status.state is TaskState.STARTING
    running.cloud.stop(handle)
    status = running.wait(handle)
    assert status.state is TaskState.STOPPED
    assert running.cluster.objects("jobs") == []
    assert status.started_at is not None
    assert status.ended_at is not None
    node_hours = (status.ended_at - status.started_at) / 3600.0
    price = next(iter(running.cloud.offers())).usd_per_hour
    assert status.usd == pytest.approx(price * node_hours, rel=0.5)  # of one node, of the two asked for


def test_a_drain_gives_the_program_its_grace_and_what_it_saved_comes_home(running: Running) -> None:
    handle = running.launch(SAVES_WHEN_TOLD, checkpoint_path="saved")
    running.wait(handle, lambda status: "ready" in running.log())
    (pod,) = running.cluster.objects("pods")
    running.cluster.drain(pod["spec"]["nodeName"])
    status = running.wait(handle)
    assert status.state is TaskState.LOST
    assert "its machine was told to go" in status.reason
    assert "saved it" in running.log()
    assert [file.read_text() for file in (running.home / "checkpoints").glob("*/state")] == ["saved\n"]


def test_a_pod_without_a_program_leaves_at_once_when_told(running: Running) -> None:
    handle = running.launch("echo done")
    assert running.wait(handle).state is TaskState.SUCCEEDED
    began = time.monotonic()
    while running.cloud._kubectl.items("list pods", "pods"):
        assert time.monotonic() - began < 30  # less than the 35 seconds of its grace
        time.sleep(0.1)


def test_few_kubectls_are_started_while_a_task_runs(running: Running) -> None:
    handle = running.launch("while true; do echo tick; sleep 0.2; done", nodes=2)
    running.wait(handle, lambda status: running.log(1).count("tick") > 5)
    before, seen = running.cluster.execs, running.log(1).count("tick")
    running.wait(handle, lambda status: running.log(1).count("tick") > seen + 30)
    assert running.cluster.execs - before <= 2  # six seconds and more of listening to two pods
