"""Has a scheduler look after a task: one at a time, and another when it has died before the task ended."""

from __future__ import annotations

import os

from mlcd.clouds.functions.files import TaskFiles
from mlcd.clouds.tasks.keepers import start_keeper, take_lock


def ensure_scheduler(files: TaskFiles) -> None:
    """Start one, unless one is there or the task has ended."""
    lock = take_lock(files)
    if lock is None:
        return
    state = files.read_state()
    if state is not None and state.state.ended:
        os.close(lock)
        return
    start_keeper("mlcd.clouds.functions.scheduler", files, lock)
