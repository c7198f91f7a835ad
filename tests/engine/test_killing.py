"""The controller killed with SIGKILL at random moments: nothing lost, nothing paid twice, nothing left running."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from mlcd.api import Client
from mlcd.clouds.tasks.processes import command_line, started_seconds
from mlcd.core.run import JobState
from mlcd.engine import control
from mlcd.engine.context import job_folder
from mlcd.engine.control import controlling, start_controller
from mlcd.store import Store
from small_jobs import PROGRAM, MakeJob

pytestmark = pytest.mark.slow  # each trains

KILLS = 20


def test_a_controller_killed_twenty_times_loses_nothing(client: Client, make_job: MakeJob) -> None:
    # So much work that no probe does all of it while one controller after the other is killed.
    job_id = client.submit(client.load(make_job(num_nodes="1..2", work={"samples": 20000})))
    client.confirm(job_id)
    client.start(job_id)
    kill_at_random(client, job_id, random.Random(7))
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert len(view.trials) == len({trial.deployment for trial in view.trials}) == 2
    assert len(view.run.attempts) == 1
    tasks = client.store.tasks(job_id)
    assert all(task.ended_at is not None for task in tasks)
    assert {item.task_id for item in view.bill} == {task.id for task in tasks}
    assert client.sweep() == []


def test_a_probe_that_is_taken_over_is_waited_for_before_the_next(client: Client, make_job: MakeJob) -> None:
    job = make_job(num_nodes="1..2", work={"samples": 50000}, resources={})
    job_id = client.submit(client.load(job))
    client.start(job_id)
    _wait_for(lambda: any(task.handle for task in client.store.tasks(job_id)))
    controller = client.store.job(job_id).controller
    assert controller is not None
    os.kill(controller.pid, signal.SIGKILL)
    view = client.drive(job_id)
    assert view.record.state is JobState.PLANNED, view.record.error
    probes = client.store.tasks(job_id)
    assert len(probes) == 3
    assert all(later.intended_at >= (probe.ended_at or 0) for probe, later in pairwise(probes))


@pytest.mark.parametrize("parallel", [1, 2])
def test_controllers_killed_in_every_probe_add_none_and_each_carries_on(
    client: Client, make_job: MakeJob, parallel: int
) -> None:
    search = {"strategy": "exhaustive", "parallel": parallel}
    job = make_job(SAYS_WHERE + PROGRAM, num_nodes="1..2", work={"samples": 50000}, resources={}, search=search)
    job_id = client.submit(client.load(job))
    client.start(job_id)
    killed: set[str] = set()
    while client.store.job(job_id).state is JobState.SEARCHING:
        under_way = client.store.tasks(job_id, open_only=True)
        assert len(under_way) <= parallel
        fresh = {task.id for task in under_way if task.handle} - killed
        controller = client.store.job(job_id).controller
        if fresh and controller is not None:
            killed |= fresh
            os.kill(controller.pid, signal.SIGKILL)
            client.start(job_id)
        time.sleep(0.05)
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.PLANNED, view.record.error
    probes = client.store.tasks(job_id)
    assert len(probes) == len(killed) == 3
    if parallel == 1:  # of several at once only the first carries on
        begun = [began_at(client, job_id, task.id) for task in probes]
        assert begun[0] == 0 < begun[1] < begun[2]


SAYS_WHERE = "import os\nprint('began at', os.environ['MLCD_SAMPLES_BEFORE'], flush=True)\n"


def began_at(client: Client, job_id: str, task_id: str) -> int:
    words = next(line for line in client.logs(job_id, task=task_id) if line.startswith("began at"))
    return int(words.split()[-1])


def test_a_job_resumed_while_its_controller_is_about_to_leave_goes_on(
    client: Client, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever resumes finds a living controller and starts none: that one has to look once more."""
    leave, left = Store.release, []

    def resume_and_leave(store: Store, job_id: str, token: str) -> None:
        if not left:
            (Path(client.store.job(job_id).job.workdir) / "data").touch()
            client.resume(job_id)
        left.append(token)
        leave(store, job_id, token)

    monkeypatch.setattr(Store, "release", resume_and_leave)
    job_id = client.submit(client.load(make_job("open('data')\n" + PROGRAM)))
    client.confirm(job_id)
    view = client.drive(job_id)
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert len(left) == 2


def test_whoever_looks_at_a_job_while_its_controller_starts_starts_no_other(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(make_job()))
    others = [Client(client.settings) for _ in range(3)]
    for each in (client, *others):
        each.start(job_id)
    assert len(controllers_of(job_id)) == 1
    for each in others:
        each.close()
    assert list(client.follow(job_id))[-1].record.state is JobState.PLANNED


def test_whoever_waited_for_a_controller_to_start_starts_no_other(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(make_job()))
    with controlling(client.store, job_id) as token:  # it took control after the other had looked
        assert token
        start_controller(client.settings, client.store, job_id)
        assert controllers_of(job_id) == []


def test_a_controller_that_was_killed_while_it_started_holds_nobody_up(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(make_job()))
    folder = job_folder(client.settings, job_id)
    with (folder / "starting.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        starting = subprocess.Popen(
            [sys.executable, "-c", "data = bytearray(300_000_000); print(flush=True); input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[lock.fileno()],
        )
        lock.write(str(starting.pid).encode())
    client.start(job_id)
    assert controllers_of(job_id) == []
    assert starting.stdout is not None
    starting.stdout.readline()
    os.kill(starting.pid, signal.SIGKILL)  # the kernel takes a moment to take the memory and the lock back
    client.start(job_id)
    assert len(controllers_of(job_id)) == 1
    starting.communicate()
    assert list(client.follow(job_id))[-1].record.state is JobState.PLANNED


def test_a_dying_controller_that_looks_alive_for_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between taking the signal and beginning to exit a process shows neither; on a busy computer that may last."""
    looks = iter([None])  # dying at the first look, alive at all later ones
    monkeypatch.setattr(control, "started_seconds", lambda pid: next(looks, 1.0))
    with (tmp_path / "starting.lock").open("w+b") as held, (tmp_path / "starting.lock").open("a+b") as lock:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(b"4711")
        held.flush()
        release = threading.Timer(2 * control.SURE_SECONDS, fcntl.flock, (held, fcntl.LOCK_UN))
        release.start()
        assert control._locked(lock)
        release.join()


def test_a_controller_killed_this_very_moment_is_not_taken_for_alive(
    client: Client, make_job: MakeJob, dying: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = client.submit(client.load(make_job()))
    with control.controlling(client.store, job_id):
        mine = client.store.job(job_id).controller
    born_at = started_seconds(dying.pid)
    assert mine is not None
    assert born_at is not None
    theirs = replace(mine, pid=dying.pid, born_at=born_at)
    assert client.store.take_control(job_id, theirs, may_replace=lambda _: False) is not None

    def die(_seconds: float) -> None:
        dying.kill()
        dying.wait()

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", die)  # its death shows between two looks
        client.start(job_id)
    assert len(controllers_of(job_id)) == 1
    assert list(client.follow(job_id))[-1].record.state is JobState.PLANNED


@pytest.fixture
def dying() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until it is killed."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def controllers_of(job_id: str) -> list[int]:
    return [pid for pid in psutil.pids() if {"mlcd.engine.controller", job_id} <= set(command_line(pid))]


def test_a_stop_asked_of_a_job_that_has_just_ended_leaves_it_at_rest(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(make_job()))
    client.confirm(job_id)
    client.start(job_id)
    assert list(client.follow(job_id))[-1].record.state is JobState.SUCCEEDED
    client.store.change_job(job_id, stop_asked=True)
    assert client.view(job_id).at_rest


def _wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "it did not come true within a minute"
        time.sleep(0.02)


def kill_at_random(client: Client, job_id: str, draw: random.Random) -> None:
    kills, until = 0, time.monotonic() + 120
    while kills < KILLS and time.monotonic() < until:
        time.sleep(draw.uniform(0.0, 0.8))
        record = client.store.job(job_id)
        if not record.state.active and record.state is not JobState.PLANNED:
            return
        if record.controller is not None:
            try:
                os.kill(record.controller.pid, signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                pass
        client.start(job_id)
