"""Nodes that serve are ended after those that work, and asked last to stop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clouds.local.tools import Computer, log_of, one_core, wait_for_text
from mlcd.core.task import Handle, Task, TaskState

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
