"""Parameter servers on machines elsewhere: ended after the workers, asked last to stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clouds.remote.test_tasks import Rented, _renting
from loopback_machines import OFFER, Door
from mlcd.core.machines import Deployment
from mlcd.core.task import Handle, Task, TaskState

pytestmark = pytest.mark.slow

SERVED = Deployment(OFFER, nodes=2, servers=1)


@pytest.fixture
def rented(tmp_path: Path, door: Door) -> Iterator[Rented]:
    """A cloud with nothing on it; what a test leaves is ended."""
    yield from _renting(Rented(tmp_path, door))


def launch(rented: Rented, worker: str, server: str = "sleep 1000") -> tuple[Task, Handle]:
    task = rented.task(f'if [ "$MLCD_ROLE" = server ]; then {server}; else {worker}; fi')
    return task, rented.cloud.launch(task, SERVED, {})


def test_a_server_is_ended_when_the_workers_are_done(rented: Rented) -> None:
    task, handle = launch(rented, "sleep 1; echo trained")
    status = rented.wait(handle)
    assert (status.state, status.exit_code) == (TaskState.SUCCEEDED, 0), status
    assert "trained" in rented.text(task)


def test_a_server_that_fails_fails_the_task(rented: Rented) -> None:
    _, handle = launch(rented, "sleep 1000", "sleep 1; echo out of keys; exit 3")
    status = rented.wait(handle)
    assert (status.state, status.exit_code) == (TaskState.FAILED, 3), status
    assert "out of keys" in status.log_tail


def test_when_stopped_a_worker_can_still_ask_its_server(rented: Rented, tmp_path: Path) -> None:
    number = tmp_path / "server"
    saving = f'trap "kill -0 $(cat {number}) && echo saved; exit 0" TERM'
    waiting = f"until [ -s {number} ]; do sleep 0.1; done"
    worker = f"{waiting}; {saving}; echo working; while true; do sleep 0.05; done"
    task, handle = launch(rented, worker, f"echo $$ > {number}; exec sleep 1000")
    deadline = time.monotonic() + 90
    while "working" not in (rented.text(task) if log_exists(task) else ""):
        assert time.monotonic() < deadline
        rented.cloud.status(handle)
        time.sleep(0.1)
    rented.cloud.stop(handle)
    assert rented.wait(handle).state is TaskState.STOPPED
    assert "saved" in rented.text(task)


def log_exists(task: Task) -> bool:
    return (Path(task.folder) / "logs" / "node-0.log").exists()


def test_a_node_may_work_and_serve_at_once(rented: Rented) -> None:
    """MXNet without servers of their own: a worker and a server on each node, and a scheduler."""
    task = replace(rented.task('[ "$DMLC_ROLE" = worker ] || sleep 1000; echo $DMLC_ROLE'), platform="mxnet")
    status = rented.wait(rented.cloud.launch(task, Deployment(OFFER, nodes=1), {}))
    assert status.state is TaskState.SUCCEEDED, status
    assert rented.text(task).split()[0] == "worker"
