"""Nodes that serve are ended after those that work, and asked last to stop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clouds.local.tools import Computer, log_of, one_core, wait_for_text
from mlcd.core.machines import Deployment, InstanceType
from mlcd.core.task import Handle, Task, TaskFolder, TaskState
from mlcd.errors import NoCapacityError

pytestmark = pytest.mark.slow

WITH_A_SERVER = replace(one_core(nodes=2), servers=1)
SERVER = 'echo serving; trap "echo asked; exit 0" TERM; while true; do sleep 0.05; done'


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    computer = Computer(tmp_path / "home")
    yield computer
    computer.end_everything()


def in_roles(worker: str, server: str = SERVER) -> str:
    return f'if [ "$MLCD_ROLE" = server ]; then {server}; else {worker}; fi'


def launch(computer: Computer, task: Task) -> Handle:
    return computer.cloud.launch(task, WITH_A_SERVER, {})


def test_a_server_is_ended_when_the_workers_are_done(computer: Computer) -> None:
    task = computer.task(in_roles("sleep 0.5; echo trained"))
    status = computer.wait(launch(computer, task))
    assert (status.state, status.exit_code) == (TaskState.SUCCEEDED, 0)
    assert status.charges[0].what == "2 × local-1c (1 serving)"
    assert "trained" in log_of(task)
    assert computer.processes(task.id) == []


def test_a_server_may_have_fewer_cores_than_a_worker(computer: Computer) -> None:
    small, large = (
        one_core().offer,
        replace(one_core().offer, instance=InstanceType("local-3c", 3, 3), usd_per_hour=0.3),
    )
    where = Deployment(large, 2, servers=1, server_offer=small)
    task = computer.task("echo $MLCD_ROLE with $OMP_NUM_THREADS; sleep 1")
    status = computer.wait(computer.cloud.launch(task, where, {}))
    assert status.state is TaskState.SUCCEEDED
    assert [charge.what for charge in status.charges] == ["1 × local-3c", "1 × local-1c serving"]
    assert status.usd == pytest.approx(where.usd(status.charges[0].seconds))
    assert "worker with 3" in log_of(task)
    assert "server with 1" in TaskFolder(Path(task.folder)).log(1).read_text()


def test_more_cores_than_there_are_for_both_are_refused(computer: Computer) -> None:
    large = replace(one_core().offer, instance=InstanceType("local-4c", 4, 4))
    where = Deployment(large, 2, servers=1, server_offer=one_core().offer)
    with pytest.raises(NoCapacityError, match="1 × local-4c \\+ 1 × local-1c serving needs 5 cores"):
        computer.cloud.launch(computer.task("true"), where, {})


def test_a_server_that_fails_fails_the_task(computer: Computer) -> None:
    task = computer.task(in_roles("sleep 100", "echo 'out of keys'; exit 3"))
    status = computer.wait(launch(computer, task))
    assert (status.state, status.exit_code) == (TaskState.FAILED, 3)
    assert "out of keys" in status.log_tail


def test_when_stopped_a_worker_can_still_ask_its_server(computer: Computer) -> None:
    saving = 'trap "kill -0 $(cat $MLCD_OUTPUT_DIR/server) && echo saved; exit 0" TERM'
    worker = f"{saving}; echo working; while true; do sleep 0.05; done"
    server = "echo $$ > $MLCD_OUTPUT_DIR/server; echo serving; exec sleep 100"
    waiting = f"until [ -s $MLCD_OUTPUT_DIR/server ]; do sleep 0.05; done; {worker}"
    task = computer.task(in_roles(waiting, server), grace_seconds=10.0)
    handle = launch(computer, task)
    wait_for_text(task, "working")
    computer.cloud.stop(handle)
    assert computer.wait(handle).state is TaskState.STOPPED
    assert "saved" in log_of(task)
