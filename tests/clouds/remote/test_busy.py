"""A provider that was asked too often is asked again; that is no fault of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from busy_machines import BusyCloud
from emulated import wait_for
from loopback_machines import OFFER, Door
from mlcd.core.machines import Deployment
from mlcd.core.task import Handle, Task, TaskKind, TaskState, TaskStatus

pytestmark = pytest.mark.slow


@pytest.fixture
def cloud(tmp_path: Path, door: Door) -> BusyCloud:
    (tmp_path / "busy").touch()
    gates = {name: str(tmp_path / name) for name in ("busy", "busy_locating")}
    return BusyCloud(tmp_path, {**door.options, **gates, "keep_seconds": 60.0})


def task_in(home: Path, name: str = "task-1", kind: TaskKind = TaskKind.TRAINING) -> Task:
    folder = str(home / "jobs" / name)
    return Task(name, "job", kind, "command", "echo ran", folder=folder, grace_seconds=1.0)


def ended(cloud: BusyCloud, handle: Handle) -> TaskStatus:
    """The final state."""
    status: TaskStatus = wait_for(lambda: (s := cloud.status(handle)).state.ended and s, "its end")
    return status


def test_a_launch_that_is_throttled_is_asked_for_again_and_runs(cloud: BusyCloud, tmp_path: Path) -> None:
    handle = cloud.launch(task_in(tmp_path), Deployment(OFFER, 1), {})
    wait_for(lambda: cloud.calls().count("asked task-1") > 1, "the provider to be asked again")
    assert cloud.status(handle).state is TaskState.STARTING
    (tmp_path / "busy").unlink()
    status = ended(cloud, handle)
    assert status.state is TaskState.SUCCEEDED, status.reason
    assert "ran" in status.log_tail


def test_machines_that_a_busy_provider_does_not_locate_are_asked_for_again(cloud: BusyCloud, tmp_path: Path) -> None:
    (tmp_path / "busy").unlink()
    (tmp_path / "busy_locating").touch()
    handle = cloud.launch(task_in(tmp_path), Deployment(OFFER, 1), {})
    wait_for(lambda: cloud.calls().count("located m-1") > 1, "the provider to be asked again")
    (tmp_path / "busy_locating").unlink()
    assert ended(cloud, handle).state is TaskState.SUCCEEDED
    assert cloud.calls().count("rent m-1") == 1


def test_a_machine_that_waits_is_taken_over_from_a_busy_provider(cloud: BusyCloud, tmp_path: Path) -> None:
    (tmp_path / "busy").unlink()
    probe = task_in(tmp_path, kind=TaskKind.PROBE)
    assert ended(cloud, cloud.launch(probe, Deployment(OFFER, 1), {})).state is TaskState.SUCCEEDED
    (tmp_path / "busy").touch()
    handle = cloud.launch(task_in(tmp_path, "task-2"), Deployment(OFFER, 1), {})
    wait_for(lambda: cloud.calls().count("adopt m-1") > 1, "the provider to be asked again")
    (tmp_path / "busy").unlink()
    assert ended(cloud, handle).state is TaskState.SUCCEEDED
    assert cloud.calls().count("rent m-1") == 1


def test_a_task_that_waits_for_a_busy_provider_can_be_stopped(cloud: BusyCloud, tmp_path: Path) -> None:
    handle = cloud.launch(task_in(tmp_path), Deployment(OFFER, 1), {})
    wait_for(lambda: "asked task-1" in cloud.calls(), "the provider to be asked")
    cloud.stop(handle)
    status = ended(cloud, handle)
    assert status.state is TaskState.STOPPED
    assert status.usd == 0
    assert "rent m-1" not in cloud.calls()
