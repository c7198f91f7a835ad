"""A training that makes no step any more: told at once, ended by a limit that follows its steps."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stories
from mlcd.api import Client
from mlcd.core.job import Job, ProbeSettings, ProgressSettings
from mlcd.core.machines import Deployment
from mlcd.core.progress import Point, Progress
from mlcd.core.run import AttemptEnd, JobState
from mlcd.core.study import ProbeTime
from mlcd.core.task import Handle, Task, TaskKind, TaskState, TaskStatus
from mlcd.core.view import JobView
from mlcd.engine.context import JobContext
from mlcd.engine.control import controlling
from mlcd.engine.hang_detection import (
    ActivityTracker,
    hang_limit,
    is_hung,
    longest_pause,
    no_step_seconds,
    unusual_pause,
)
from mlcd.engine.training import Training
from mlcd.errors import TaskFailedError
from mlcd.settings import Settings
from mlcd.store import open_store
from small_jobs import MakeJob
from virtual_clock import VirtualClock

TASK = Task("t1", "j1", TaskKind.TRAINING, "command", "python train.py", samples=10_000)


def at(*moments: float, running_at: float = 105.0, log: str = "") -> TaskStatus:
    """A program with a step of ten samples at each of these seconds of its task, which began at 100."""
    points = tuple(Point(seconds, number, 10.0 * number) for number, seconds in enumerate(moments, start=1))
    return TaskStatus(TaskState.RUNNING, Progress(points), started_at=100.0, running_at=running_at, log_tail=log)


def job(silent_seconds: float = 120.0, hang_seconds: float | None = None) -> Job:
    probe = ProbeSettings(silent_seconds=silent_seconds)
    return Job("j", "true", probe=probe, progress=ProgressSettings(hang_seconds=hang_seconds))


def test_the_longest_pause_is_between_two_steps_or_before_the_first() -> None:
    assert longest_pause(at(7, 8, 30, 31), -1.0) == 22.0
    assert longest_pause(at(40, 41), -1.0) == 35.0
    assert longest_pause(at(7, 8, 30, 31), 30.0) == 1.0  # only what is new since


def test_reports_without_progress_end_no_pause() -> None:
    told = at(7, 8)
    told = replace(told, progress=Progress((*told.progress.points, Point(50, 2, 20), Point(60, 3, 30))))
    assert longest_pause(told, -1.0) == 52.0
    assert no_step_seconds(told, 170.0) == 10.0


@pytest.mark.parametrize(
    ("asked", "longest", "limit"),
    [(None, 1.0, 120.0), (None, 100.0, 300.0), (45.0, 100.0, 45.0), (0.0, 1.0, None)],
)
def test_the_limit_follows_the_pauses_seen_unless_the_job_sets_it(
    asked: float | None, longest: float, limit: float | None
) -> None:
    assert hang_limit(job(hang_seconds=asked), longest) == limit


def test_a_pause_is_told_as_soon_as_it_is_longer_than_usual() -> None:
    assert unusual_pause(at(6, 7, 8), 117.0) == 0.0
    assert unusual_pause(at(6, 7, 8), 120.0) == 12.0
    assert unusual_pause(at(30, 60, 90), 270.0) == 0.0  # steps of thirty seconds
    assert unusual_pause(at(30, 60, 90), 281.0) == 91.0
    assert unusual_pause(at(), 1000.0) == 0.0  # it is starting


def test_silence_beyond_the_limit_is_a_hang_and_signs_of_life_give_it_longer() -> None:
    status = at(6, 7, 8)
    assert not is_hung(TASK, status, 228.0, 120.0, 120.0)
    assert is_hung(TASK, status, 229.0, 121.0, 120.0)
    assert not is_hung(TASK, status, 229.0, 5.0, 120.0)  # its log grows
    assert is_hung(TASK, status, 108.0 + 1201.0, 5.0, 120.0)
    assert not is_hung(TASK, status, 9999.0, 9999.0, None)
    assert not is_hung(TASK, replace(status, state=TaskState.SETUP), 9999.0, 9999.0, 120.0)


def test_the_start_and_the_end_of_the_work_get_longer() -> None:
    assert not is_hung(TASK, at(), 105.0 + 360.0, 360.0, 120.0)
    assert is_hung(TASK, at(), 105.0 + 361.0, 361.0, 120.0)
    assert not is_hung(TASK, at(), 9999.0, 5.0, 120.0)  # its log grows: it may prepare its data
    nearly = replace(TASK, samples=30)
    assert not is_hung(nearly, at(6, 7, 8), 1300.0, 1192.0, 120.0)
    assert is_hung(nearly, at(6, 7, 8), 1309.0, 1201.0, 120.0)


def test_a_new_line_in_the_log_is_a_sign_of_life() -> None:
    signs = ActivityTracker(now=100.0)
    assert signs.silent_seconds(at(6), 110.0) == 0.0
    assert signs.silent_seconds(at(6), 150.0) == 40.0
    assert signs.silent_seconds(at(6, log="validating 1/10"), 160.0) == 0.0
    assert signs.silent_seconds(at(6, log="validating 1/10"), 161.0) == 1.0


class HangingCloud:
    """On a clock that jumps: every program makes three steps, hangs, and leaves no checkpoint."""

    name = "local"
    poll_seconds = 60.0
    ending_seconds = 0.0
    start_seconds = 0.0

    def __init__(self) -> None:
        self.clock = VirtualClock(stories.SUBMITTED)
        self._launched: dict[Handle, float] = {}
        self._stopped: dict[Handle, float] = {}

    def expected_probe(self, _measuring_seconds: float) -> ProbeTime:
        return ProbeTime()

    def launch(self, task: Task, _where: Deployment, _secrets: Mapping[str, str]) -> Handle:
        self._launched[task.id] = self.clock.now()
        return task.id

    def status(self, handle: Handle) -> TaskStatus:
        began, ended_at = self._launched[handle], self._stopped.get(handle)
        seen = tuple(Point(at, at, 256.0 * at) for at in (1.0, 2.0, 3.0) if at <= self.clock.now() - began)
        state = TaskState.RUNNING if ended_at is None else TaskState.STOPPED
        return TaskStatus(state, Progress(seen), started_at=began, running_at=began, ended_at=ended_at)

    def stop(self, handle: Handle) -> None:
        self._stopped[handle] = self.clock.now()


def test_a_training_that_hangs_twice_at_the_same_step_is_given_up(tmp_path: Path) -> None:
    store, settings = open_store(f"sqlite:///{tmp_path / 'mlcd.db'}"), Settings(home=tmp_path)
    record = stories.record(JobState.TRAINING, confirmed=True)
    store.add_job(record)
    with controlling(store, record.id) as token:
        assert token is not None
        context = JobContext(store, HangingCloud(), settings, record.id, token, {})  # type: ignore[arg-type]  # sells nothing
        with pytest.raises(TaskFailedError, match="failed 2 times; the last: no step for too long"):
            Training(context).run()
    first, second = store.attempts(record.id)
    assert first.samples == second.samples == 768.0
    assert second.longest_pause_seconds > first.longest_pause_seconds  # it was given longer
    store.close()


HANGS_ONCE = """
import os, time
import mlcd

before = int(float(os.environ.get("MLCD_SAMPLES_BEFORE") or 0))
for number, batch in enumerate(mlcd.steps([[0] * 10] * ((6000 - before) // 10))):
    time.sleep(0.02)
    if number % 20 == 19:
        with mlcd.checkpoint() as folder:
            (folder / "state").write_text("s")
    if number == 60 and os.environ["MLCD_TASK_ID"].endswith("-t1"):
        time.sleep(3600)
"""


class Watcher:
    """Looks at a job now and then while it is driven, and keeps what it saw."""

    def __init__(self, client: Client, job_id: str) -> None:
        self.views: list[JobView] = []
        self._client, self._job_id = client, job_id
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.3):
            self.views.append(self._client.view(self._job_id))


@pytest.mark.slow
def test_a_hang_is_shown_and_the_training_is_started_again(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(make_job(HANGS_ONCE, work={"samples": 6000}, progress={"hang_seconds": 15})))
    client.confirm(job_id)
    with Watcher(client, job_id) as watcher:
        view = client.drive(job_id)
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    hung, done = view.run.attempts
    assert (hung.end, done.end) == (AttemptEnd.FAILED, AttemptEnd.FINISHED)
    assert hung.why.startswith("no step for ")
    assert done.samples_before > 0
    told = [seen.live for seen in watcher.views if seen.live is not None and seen.live.no_step_seconds > 0]
    assert told
    assert all(live.left_seconds is None and live.samples_per_second == 0 for live in told)
    assert {live.hang_seconds for live in told} == {15.0}


SLOW_VALIDATION = """
import time
import mlcd

for number, batch in enumerate(mlcd.steps([[0] * 10] * 200)):
    time.sleep(0.02)
    if number == 60:
        time.sleep(6)
    if number == 140:
        time.sleep(13)
"""


@pytest.mark.slow
def test_a_pause_like_one_seen_before_is_no_hang(client: Client, make_job: MakeJob) -> None:
    probe = {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 1, "silent_seconds": 10}
    job_id = client.submit(client.load(make_job(SLOW_VALIDATION, probe=probe)))
    client.confirm(job_id)
    view = client.drive(job_id)
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    (attempt,) = view.run.attempts
    assert attempt.longest_pause_seconds >= 13
