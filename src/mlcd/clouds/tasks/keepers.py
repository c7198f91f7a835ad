"""Starts the process that looks after a task: one at a time, whoever tries and wherever they are killed.

The right to look after a task is a lock on its file. It belongs to the open file, not to a process: whoever starts a
keeper passes the file on, so there is no moment in between at which the lock is free and the task looked after.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

from mlcd.clouds.tasks.diagnosis import log_tail
from mlcd.clouds.tasks.files import AnyFiles
from mlcd.errors import CloudError


def take_lock(files: AnyFiles) -> int | None:
    """The right to look after the task; None: someone does."""
    lock = os.open(files.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def start_keeper(module: str, files: AnyFiles, lock: int, said: bytes = b"") -> None:
    """Start it with the lock in its hand: if we die here, the lock is held by it or by no one.

    The keeper reads what is said to it and leaves its parent, so this returns soon.
    """
    try:
        with files.log.open("ab") as log:
            done = subprocess.run(
                [sys.executable, "-m", module, str(files.root), str(lock)],
                cwd="/",
                input=said,
                stdout=log,
                stderr=log,
                pass_fds=[lock],
                start_new_session=True,
                check=False,
            )
    finally:
        os.close(lock)
    if done.returncode:
        raise CloudError(f"Nobody could be started to look after task {files.id}:\n{log_tail(files.log)}")
