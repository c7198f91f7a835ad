"""A task's progress, read again and again, each time only what is new."""

from __future__ import annotations

from mlcd.clouds.progress_files import ProgressReader
from mlcd.core.progress import Progress
from mlcd.core.task import Task, TaskFolder


class Follower:
    """Reads what the ranks report and, where they do not, what the log tells."""

    def __init__(self, task: Task, folder: TaskFolder, started_at: float) -> None:
        self._task = task
        self._started_at = started_at
        self._reports = ProgressReader(folder.progress, started_at)

    def progress(self) -> Progress:
        """All that is known by now; seconds count from the moment that the task began to cost money."""
        return self._reports.read()

    def samples_at(self, moment: float) -> float:
        """Samples of the whole job that were done at a moment (seconds since the epoch), rather too few than too many."""
        points = self.progress().points
        done = [point.samples for point in points if self._started_at + point.seconds <= moment]
        return self._task.samples_before + (done[-1] if done else 0.0)
