"""A task's progress, read again and again, each time only what is new."""

from __future__ import annotations

import time

from mlcd.clouds.checkpoints import Trained
from mlcd.clouds.log_progress import LogProgress, combine
from mlcd.clouds.progress_files import ProgressReader
from mlcd.clouds.tasks.files import TaskSpec
from mlcd.core.progress import Progress
from mlcd.core.task import TaskFolder

LATE_SECONDS = 2.0  # after a report of that much later the program tells no more of a save


class Follower:
    """Reads what the ranks report and what the log tells; a pattern that the user gave goes before the reports."""

    def __init__(self, spec: TaskSpec, folder: TaskFolder, started_at: float, clock_ahead: float = 0.0) -> None:
        self._task = spec.task
        self._started_at = started_at + clock_ahead  # by the clock of those who report
        self._reports = ProgressReader(folder.progress, self._started_at)
        self._log = LogProgress(
            folder.log(),
            spec.task.progress.pattern,
            started_at,
            samples_per_step=float(spec.deployment.batch_size or 0),
            samples_per_epoch=spec.task.samples_per_epoch,
            samples_before=spec.task.samples_before,
        )

    def progress(self, ended: bool = False) -> Progress:
        """All that is known by now, or when it ended in order; seconds count from when the task began to cost money."""
        reported, logged = self._reports.read(), self._log.read(time.time(), ended)
        return combine(logged, reported) if self._task.progress.pattern else combine(reported, logged)

    def trained_at(self, moment: float) -> Trained:
        """How much of the whole job was done when files were last changed at a moment (seconds since the epoch).

        The program's own count at its save, where it tells it; else rather too little than too much.
        """
        points = self.progress().points
        if moment in self._reports.saves:
            return Trained(self._reports.saves[moment])
        done = [point.samples for point in points if self._started_at + point.seconds <= moment]
        return Trained(self._task.samples_before + (done[-1] if done else 0.0), self._tells_no_more(moment))

    def _tells_no_more(self, moment: float) -> bool:
        """Whether nobody counts in the program, or it has gone on reporting for a while since."""
        reported = self._reports.read().points
        counted_by_log = bool(self._task.progress.pattern) or not reported
        return counted_by_log or self._started_at + reported[-1].seconds > moment + LATE_SECONDS
