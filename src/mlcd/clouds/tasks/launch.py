"""Starts the task runner, the process that looks after one task: one at a time, whoever tries and wherever they are killed.

The right to look after a task is a lock on its file. It belongs to the open file, not to a process: whoever starts a
runner passes the file on, so there is no moment in between at which the lock is free and the task looked after.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from mlcd.clouds.tasks.diagnosis import log_tail
from mlcd.clouds.tasks.files import AnyFiles
from mlcd.errors import CloudError

LAUNCH_SECONDS = 4.0  # to wait for another process that launches the same task
STARTS = 3  # of a runner that is killed before it has left its parent


def ensure_runner(
    life: str,
    files: AnyFiles,
    secrets: Mapping[str, str],
    again: bool,
    prepare: Callable[[], None] = lambda: None,
) -> bool:
    """Start a runner, unless the task has one or has ended; whether we did. `again`: also where one is gone.

    What it needs is prepared under the lock: whoever finds a spec and no lock knows that the launch is over. The secrets
    are said to the runner, and in no file of ours; one that is started again finds them where it left them.
    """
    give_up_at = time.monotonic() + LAUNCH_SECONDS
    for _ in range(STARTS):
        while (lock := take_lock(files)) is None:
            known = files.read_state() is not None or (again and files.read_spec() is not None)
            if known or time.monotonic() > give_up_at:
                return False
            time.sleep(0.02)
        try:
            state = files.read_state()
            if state is not None and (state.state.ended or not again):
                return False
            prepare()
            if _start(life, files, secrets, lock):
                return True
        finally:
            os.close(lock)  # where it was killed but is at work, it holds the lock, and is found so
    raise CloudError(f"The task runner of {files.id} was killed {STARTS} times while it started.")


def take_lock(files: AnyFiles) -> int | None:
    """The right to look after the task; None: someone does."""
    lock = os.open(files.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _start(life: str, files: AnyFiles, secrets: Mapping[str, str], lock: int) -> bool:
    """Start it with the lock in its hand: if we die here, the lock is held by it or by no one. False: it was killed.

    The runner reads what is said to it and leaves its parent, so this returns soon.
    """
    with files.log.open("ab") as log:
        done = subprocess.run(
            [sys.executable, "-m", "mlcd.clouds.tasks.runner", life, str(files.root), str(lock)],
            cwd="/",
            input=json.dumps(dict(secrets)).encode() + b"\n",
            stdout=log,
            stderr=log,
            pass_fds=[lock],
            start_new_session=True,
            check=False,
        )
    if done.returncode > 0:
        raise CloudError(f"The task runner of {files.id} could not start:\n{log_tail(files.log)}")
    return done.returncode == 0
