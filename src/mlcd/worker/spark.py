"""Counts the passes over the data that Spark MLlib makes in a program that knows nothing of mlcd.

While an estimator is fitted, every Spark job is one pass over the data: the loss and its gradient, a round of k-means, a level of
trees. A pass is a step, with the samples of an epoch; where the job does not say how many these are, with one. Spark's own
status tracker tells which of its jobs have succeeded, and of one that runs, how many of its tasks are done.

What the program does outside of `fit` (reading, evaluating) is no training and is not counted.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

from mlcd.worker.guard import guard
from mlcd.worker.session import current

_LOOK_SECONDS = 0.25
_LATE_SECONDS = 0.5  # by which Spark may tell the end of a job after the job has returned
_RUNNING, _SUCCEEDED = "RUNNING", "SUCCEEDED"


def hook_estimators(module: Any) -> None:
    """Count the passes of every `fit` of pyspark.ml.base."""
    fit = module.Estimator.fit

    @functools.wraps(fit)
    def counted_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        _begin()
        try:
            return fit(self, *args, **kwargs)
        finally:
            _end()

    module.Estimator.fit = counted_fit


class Passes:
    """The passes made so far in one Spark context, which numbers its jobs from 0 on, one after the other."""

    def __init__(self, tracker: Any, samples: float, done: int = 0) -> None:
        self._tracker = tracker
        self._samples = samples  # of one pass
        self._next = 0
        self.pass_over()
        self.done = done
        self._told = float(done)  # passes, the one that runs in part

    def pass_over(self) -> None:
        """What Spark has done until now is no pass. It may have forgotten much of that: it keeps the last 1,000 jobs."""
        known = [*self._tracker.getJobIdsForGroup(), *self._tracker.getActiveJobsIds()]
        self._next = max(self._next, 1 + max(known, default=-1))
        while self._tracker.getJobInfo(self._next) is not None:  # of a group of the program's own
            self._next += 1

    def look(self) -> bool:
        """Count the jobs that have ended, and say whether none runs."""
        while (job := self._tracker.getJobInfo(self._next)) is not None and job.status != _RUNNING:
            self._next += 1
            self.done += job.status == _SUCCEEDED
        passes = self.done + (self._part(job) if job is not None else 0.0)
        if passes > self._told:
            self._told = passes
            current().counts.set_hooked(self.done, passes * self._samples)
        return job is None

    def _part(self, job: Any) -> float:
        """The share of its tasks that a job has done."""
        stages = [stage for each in job.stageIds if (stage := self._tracker.getStageInfo(each)) is not None]
        tasks = sum(stage.numTasks for stage in stages)
        return sum(stage.numCompletedTasks for stage in stages) / tasks if tasks else 0.0


class _Counter:
    """Looks at the program's Spark context while something is fitted. A fit may hold others, in threads too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fits = 0
        self._context: Any = None
        self._passes: Passes | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """A fit begins: what Spark did before was none."""
        with self._lock:
            self._fits += 1
            if self._fits == 1:
                self._find_context()
            if self._fits == 1 and self._passes is not None:
                self._passes.pass_over()
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="mlcd-spark", daemon=True)
                self._thread.start()

    def end(self) -> None:
        """A fit has ended; of its last job, Spark may tell a little later."""
        give_up_at = time.monotonic() + _LATE_SECONDS
        with self._lock:
            try:
                while self._fits == 1 and self._passes and not self._passes.look():
                    if time.monotonic() > give_up_at:
                        break
                    time.sleep(0.02)
            finally:
                self._fits -= 1

    def _find_context(self) -> None:
        from pyspark import SparkContext

        context = SparkContext._active_spark_context  # none where the program is a client of Spark Connect
        if context is self._context:
            return
        self._context, before = context, self._passes.done if self._passes else 0
        epoch = current().env.epoch_samples or 1.0
        self._passes = None if context is None else Passes(context.statusTracker(), epoch, before)
        current().start()

    def _follow(self) -> None:
        from py4j.protocol import Py4JError

        try:
            while True:
                time.sleep(_LOOK_SECONDS)
                with self._lock:
                    if self._fits and self._passes is not None:
                        self._passes.look()
        except (Py4JError, OSError):  # Spark has ended under the program, which has that to say itself
            return


_counter = _Counter()


@guard(None)
def _begin() -> None:
    _counter.begin()


@guard(None)
def _end() -> None:
    _counter.end()
