"""A task runner is started once, whoever is killed meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcd.clouds.local.files import TaskFiles
from mlcd.clouds.tasks import launch
from mlcd.clouds.tasks.launch import STARTS, ensure_runner, take_lock
from mlcd.errors import CloudError

LIFE = "a.module:Life"


@pytest.fixture
def files(tmp_path: Path) -> TaskFiles:
    made = TaskFiles.of(tmp_path, "t1")
    made.root.mkdir(parents=True)
    return made


@pytest.fixture
def left_running() -> Iterator[list[subprocess.Popen[bytes]]]:
    running: list[subprocess.Popen[bytes]] = []
    yield running
    for process in running:
        process.kill()
        process.wait()


def play(monkeypatch: pytest.MonkeyPatch, *codes: int) -> list[int]:
    """Starts end with these codes; gives the locks that they were passed."""
    locks: list[int] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        locks.append(int(command[-1]))
        return subprocess.CompletedProcess(command, codes[len(locks) - 1])

    monkeypatch.setattr(subprocess, "run", run)
    return locks


def test_a_runner_that_was_killed_before_it_began_is_started_again(
    files: TaskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = play(monkeypatch, -9, -9, 0)
    assert ensure_runner(LIFE, files, {}, again=False)
    assert len(locks) == 3


def test_one_that_is_always_killed_is_given_up(files: TaskFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = play(monkeypatch, *[-9] * STARTS)
    with pytest.raises(CloudError, match="was killed 3 times while it started"):
        ensure_runner(LIFE, files, {}, again=False)
    assert len(locks) == STARTS
    lock = take_lock(files)
    assert lock is not None, "nobody is left with it"
    os.close(lock)


def test_one_that_cannot_start_says_why_and_is_not_tried_again(
    files: TaskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = play(monkeypatch, 1)
    files.log.write_text("No module named 'torch'\n")
    with pytest.raises(CloudError, match="could not start:\nNo module named 'torch'"):
        ensure_runner(LIFE, files, {}, again=False)
    assert len(locks) == 1


def test_one_that_was_killed_after_it_had_begun_is_not_started_twice(
    files: TaskFiles, monkeypatch: pytest.MonkeyPatch, left_running: list[subprocess.Popen[bytes]]
) -> None:
    """The process that leaves its parent holds the lock, though the parent was killed."""
    monkeypatch.setattr(launch, "LAUNCH_SECONDS", 0.2)

    def run(command: list[str], pass_fds: list[int], **_: Any) -> subprocess.CompletedProcess[bytes]:
        sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
        left_running.append(subprocess.Popen(sleeping, pass_fds=pass_fds))
        return subprocess.CompletedProcess(command, -9)

    monkeypatch.setattr(subprocess, "run", run)
    assert not ensure_runner(LIFE, files, {}, again=False)
    assert len(left_running) == 1
