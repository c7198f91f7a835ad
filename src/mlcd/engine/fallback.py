"""A checkpoint that the program cannot start from is set aside, and the one before it is tried."""

from __future__ import annotations

from enum import Enum, auto

from mlcd.core.task import TaskStatus
from mlcd.engine.context import JobContext
from mlcd.engine.probe_result import fails_to_start
from mlcd.engine.tasks import checkpoint_folder
from mlcd.worker.checkpoints import accept_all, complete_checkpoints, newest_intact, refuse


class Fallback(Enum):
    """What became of a task's checkpoint."""

    KEPT = auto()  # it is not to blame, or there is no other
    TAKEN = auto()  # the next task starts from the one before
    NONE_LEFT = auto()  # the program starts from none of several: it is to blame itself, and all count again


def fall_back(context: JobContext, task_id: str, status: TaskStatus) -> Fallback:
    """Set the newest checkpoint aside where a task failed before its first step.

    The mark is a file in the checkpoint, made once for each task, whichever controller comes to it.
    """
    root = checkpoint_folder(context.folder)
    newest, known = newest_intact(root), complete_checkpoints(root)
    if newest is None or len(known) < 2 or not fails_to_start(status):
        return Fallback.KEPT
    if any(one.refused_by == task_id for one in known):
        return Fallback.TAKEN
    refuse(newest, task_id)
    older = newest_intact(root)
    if older is None:
        accept_all(root)
        return Fallback.NONE_LEFT
    context.add_event(
        "warning",
        f"The program failed before its first step from checkpoint {newest.path.name}; "
        f"going back to the one before, {older.path.name}",
    )
    return Fallback.TAKEN
