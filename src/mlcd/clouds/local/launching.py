"""Starts the supervisor of a task, once, whoever tries and wherever they are killed.

The right to start is a lock on the task's file. It belongs to the open file, not to a process: the launching process
passes the file on to the supervisor, so there is no moment in between at which the lock is free and the task started.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping

from mlcd.clouds.local.diagnosis import log_tail
from mlcd.clouds.local.files import Spec, TaskFiles
from mlcd.errors import CloudError

LAUNCH_SECONDS = 4.0  # to wait for another process that launches the same task


def take_lock(files: TaskFiles) -> int | None:
    """The right to start the task; None: someone else has started it, or is about to."""
    deadline = time.monotonic() + LAUNCH_SECONDS
    while True:
        lock = os.open(files.lock, os.O_RDWR | os.O_CREAT, 0o600)
        if _locks(lock) and files.read_state() is None:
            return lock
        os.close(lock)
        if files.read_state() is not None or time.monotonic() > deadline:
            return None
        time.sleep(0.02)


def _locks(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def start_supervisor(files: TaskFiles, spec: Spec, secrets: Mapping[str, str], lock: int) -> None:
    """Start it with the lock in its hand: if we die here, the lock is held by it or by no one."""
    try:
        files.write_spec(spec)
        command = [sys.executable, "-m", "mlcd.clouds.local.supervisor", str(files.root), str(lock)]
        with files.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[lock],
                start_new_session=True,
            )
        process.communicate(json.dumps(dict(secrets)).encode() + b"\n")
    finally:
        os.close(lock)
    if process.returncode:
        raise CloudError(f"The supervisor of task {files.id} did not start:\n{log_tail(files.log)}")
