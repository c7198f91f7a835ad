"""Starts the supervisor of a task, once: a task that ever had one is never started again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

from mlcd.clouds.local.files import Spec, TaskFiles
from mlcd.clouds.tasks import keepers

LAUNCH_SECONDS = 4.0  # to wait for another process that launches the same task


def take_lock(files: TaskFiles) -> int | None:
    """The right to start the task; None: someone else has started it, or is about to."""
    deadline = time.monotonic() + LAUNCH_SECONDS
    while True:
        lock = keepers.take_lock(files)
        if lock is not None and files.read_state() is None:
            return lock
        if lock is not None:
            os.close(lock)
        if files.read_state() is not None or time.monotonic() > deadline:
            return None
        time.sleep(0.02)


def start_supervisor(files: TaskFiles, spec: Spec, secrets: Mapping[str, str], lock: int) -> None:
    """Start it, and say the secrets to it: they are in no file."""
    try:
        files.write_spec(spec)
    except OSError:
        os.close(lock)
        raise
    said = json.dumps(dict(secrets)).encode() + b"\n"
    keepers.start_keeper("mlcd.clouds.local.supervisor", files, lock, said)
