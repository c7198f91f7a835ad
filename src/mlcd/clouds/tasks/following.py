"""A task's progress, read again and again, each time only what is new."""

from __future__ import annotations

import time
from typing import Protocol

from mlcd.clouds.log_progress import LogProgress, combine
from mlcd.clouds.progress_files import ProgressReader
from mlcd.core.machines import Deployment
from mlcd.core.progress import Progress
from mlcd.core.task import Task, TaskFolder


class Asked(Protocol):
    """What was asked for, in whichever cloud's words."""

    @property
    def task(self) -> Task: ...

    @property
    def deployment(self) -> Deployment: ...


class Follower:
    """Reads what the ranks report and what the log tells; a pattern that the user gave goes before the reports."""

    def __init__(self, spec: Asked, folder: TaskFolder, started_at: float) -> None:
        self._task = spec.task
        self._started_at = started_at
        self._reports = ProgressReader(folder.progress, started_at)
        self._log = LogProgress(
            folder.log(),
            spec.task.progress.pattern,
            started_at,
            samples_per_step=float(spec.deployment.batch_size or 0),
            samples_per_epoch=spec.task.samples_per_epoch,
            samples_before=spec.task.samples_before,
        )

    def progress(self) -> Progress:
        """All that is known by now; seconds count from the moment that the task began to cost money."""
        reported, logged = self._reports.read(), self._log.read(time.time())
        return combine(logged, reported) if self._task.progress.pattern else combine(reported, logged)

    def samples_at(self, moment: float) -> float:
        """Samples of the whole job that were done at a moment (seconds since the epoch), rather too few than too many."""
        points = self.progress().points
        done = [point.samples for point in points if self._started_at + point.seconds <= moment]
        return self._task.samples_before + (done[-1] if done else 0.0)
