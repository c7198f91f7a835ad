"""Starts the courier of a task: one at a time, whoever tries and wherever they are killed.

The right to look after a task is a lock on its file. It belongs to the open file, not to a process: whoever starts a
courier passes the file on, so there is no moment in between at which the lock is free and the task looked after.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

from mlcd.clouds.local.diagnosis import log_tail
from mlcd.clouds.remote.files import TaskFiles
from mlcd.errors import CloudError


def take_lock(files: TaskFiles) -> int | None:
    """The right to look after the task; None: someone does."""
    lock = os.open(files.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def start_courier(files: TaskFiles, lock: int) -> None:
    """Start it with the lock in its hand: if we die here, the lock is held by it or by no one."""
    command = [sys.executable, "-m", "mlcd.clouds.remote.courier", str(files.root), str(lock)]
    try:
        with files.log.open("ab") as log:
            code = subprocess.run(
                command,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock],
                start_new_session=True,
                check=False,
            ).returncode
    finally:
        os.close(lock)
    if code:
        raise CloudError(f"The courier of task {files.id} did not start:\n{log_tail(files.log)}")
