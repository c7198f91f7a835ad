"""The metric that ends a training: whether it got there, and whether the program reports it at all."""

from __future__ import annotations

from collections import Counter

from mlcd.core.task import Task, TaskStatus
from mlcd.errors import did_you_mean

ENOUGH_VALUES = 5  # of another metric, after which the target could have been seen
ENOUGH_EPOCHS = 1.2  # a metric of the validation comes at the end of the first
ENOUGH_WORK = 0.1  # where nobody knows how long an epoch is
_OURS = "mlcd/"  # what the worker reports by itself


def target_reached(task: Task, status: TaskStatus) -> bool:
    """Whether the metric that ends the training has got there."""
    return task.until is not None and task.until.reached_in(status.progress.metrics)


def unseen_target(task: Task, status: TaskStatus) -> str:
    """What to say of a target that the program does not seem to report; empty: it does, or it is too early to tell."""
    if task.until is None or not _could_be_seen(task, status):
        return ""
    counts = Counter(point.name for point in status.progress.metrics if not point.name.startswith(_OURS))
    if task.until.metric in counts or max(counts.values(), default=0) < ENOUGH_VALUES:
        return ""
    return (
        f"The training ends once `{task.until.metric}` gets there (work.until), which the program has not reported so far; "
        f"it reports {', '.join(sorted(counts))}. {did_you_mean(task.until.metric, counts)}"
    )


def _could_be_seen(task: Task, status: TaskStatus) -> bool:
    if task.samples_per_epoch > 0:
        return status.progress.samples >= ENOUGH_EPOCHS * task.samples_per_epoch
    return status.progress.samples >= ENOUGH_WORK * task.samples > 0
