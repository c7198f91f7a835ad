"""Starts the scheduler of a task: one at a time, and another when it has died before the task ended.

The right to look after a task is a lock on its file, passed on to the scheduler as an open file, as on the local cloud.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

from mlcd.clouds.functions.files import read_state
from mlcd.clouds.local.diagnosis import log_tail
from mlcd.clouds.local.files import TaskFiles
from mlcd.core.serial import from_json, to_json
from mlcd.errors import CloudError
from mlcd.settings import FunctionsSettings


def keep_task_settings(files: TaskFiles, settings: FunctionsSettings) -> None:
    """The settings that the task was launched with, for whoever looks after it; only the owner may read them."""
    handle = os.open(files.root / "settings.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(to_json(settings))


def read_task_settings(files: TaskFiles) -> FunctionsSettings | None:
    """Those; None: it was not launched to the end."""
    try:
        return from_json(FunctionsSettings, (files.root / "settings.json").read_text())
    except FileNotFoundError:
        return None


def ensure_scheduler(files: TaskFiles) -> None:
    """Have a scheduler look after the task, unless one does or the task has ended."""
    lock = os.open(files.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if _locks(lock) and not _ended(files):
            _start(files, lock)
    finally:
        os.close(lock)


def _start(files: TaskFiles, lock: int) -> None:
    with files.log.open("ab") as log:
        done = subprocess.run(
            [sys.executable, "-m", "mlcd.clouds.functions.scheduler", str(files.root), str(lock)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[lock],
            start_new_session=True,
            check=False,
        )
    if done.returncode:
        raise CloudError(f"The scheduler of task {files.id} did not start:\n{log_tail(files.log)}")


def _locks(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _ended(files: TaskFiles) -> bool:
    state = read_state(files)
    return state is not None and state.state.ended
