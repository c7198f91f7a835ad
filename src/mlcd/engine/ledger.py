"""Writes down how an attempt of training goes: money, samples, curves, and the live view."""

from __future__ import annotations

from dataclasses import replace

from mlcd.core.live import Live
from mlcd.core.progress import Progress
from mlcd.core.records import JobRecord
from mlcd.core.run import Attempt
from mlcd.core.task import TaskKind, TaskStatus
from mlcd.engine.context import JobContext, work_of
from mlcd.engine.hang_detection import hang_limit, longest_pause, unusual_pause
from mlcd.engine.nan_loss import nan_loss
from mlcd.forecast.observed_conditions import PARAMETERS
from mlcd.forecast.throughput import Throughput, first_step_seconds, last_step_seconds, throughput_after

UPDATE_SECONDS = 1.0  # how often the money so far is written down
RECENT_SECONDS = 60.0  # what "recent" means for a speed


class AttemptLedger:
    """The ledger of one attempt; a new controller opens it again."""

    def __init__(self, context: JobContext, attempt: Attempt) -> None:
        self.context = context
        self.attempt = attempt
        self._target = work_of(context.load_record().job).until
        self._updated_at = float("-inf")
        earlier = (each.longest_pause_seconds for each in context.store.attempts(context.job_id))
        self._earlier_pause = max(earlier, default=0.0)
        self._pauses_until = -1.0  # seconds of the attempt whose pauses between steps are known
        self._points_until = -1.0  # seconds of the attempt whose points are stored
        self._metrics_until: dict[str, float] = {}  # likewise of each metric: they come from several sources

    def update(self, record: JobRecord, status: TaskStatus, at_last: bool = False) -> Attempt:
        """Write down what is new, at most once a second but for the last time."""
        now = self.context.now()
        if at_last or now - self._updated_at >= UPDATE_SECONDS:
            self._updated_at = now
            self.attempt = self._seen(status)
            store, job_id = self.context.store, self.context.job_id
            store.put_charges(job_id, self.attempt.task_id, TaskKind.TRAINING, status.charges)
            store.put_attempt(job_id, self.attempt)
            self._store_curves(status.progress)
            store.put_live(job_id, self._live(record, status))
        return self.attempt

    def close(self, attempt: Attempt) -> Attempt:
        """Write down how the attempt ended; only then is its task over."""
        self.context.store.put_attempt(self.context.job_id, attempt)
        self.context.store.end_task(attempt.task_id, self.context.now())
        why = attempt.why or "work done"
        self.context.add_event("attempt", f"Attempt {attempt.number} {attempt.end}: {why}", number=attempt.number)
        return attempt

    def hang_limit(self, record: JobRecord) -> float | None:
        """Seconds without a step after which the training counts as hung, by all that the job has shown."""
        return hang_limit(record.job, max(self._earlier_pause, self.attempt.longest_pause_seconds))

    def _longest_pause(self, status: TaskStatus) -> float:
        """With the steps that are new since the last look: older points may have been thinned out."""
        longest = longest_pause(status, self._pauses_until)
        self._pauses_until = max([self._pauses_until, *(point.seconds for point in status.progress.points[-1:])])
        return max(self.attempt.longest_pause_seconds, longest)

    def _seen(self, status: TaskStatus) -> Attempt:
        end = status.ended_at or self.context.now()
        begin = status.started_at or end
        first, last = (each(status.progress.points) for each in (first_step_seconds, last_step_seconds))
        seen, lost = recent_speed(status), nan_loss(status.progress, self._target)
        return replace(
            self.attempt,
            samples_per_second=seen.samples_per_second if seen else 0.0,
            samples=status.progress.samples,
            seconds=max(0.0, end - begin),
            usd=status.usd,
            first_step_at=None if first is None else begin + first,
            last_step_at=None if last is None else begin + last,
            ended_at=status.ended_at,
            longest_pause_seconds=self._longest_pause(status),
            nan_loss=lost.name if lost is not None else "",
        )

    def _store_curves(self, progress: Progress) -> None:
        """Append what is new; what a controller before us stored already is not stored twice."""
        points = [point for point in progress.points if point.seconds > self._points_until]
        until = self._metrics_until
        metrics = [point for point in progress.metrics if point.seconds > until.get(point.name, -1.0)]
        self.context.store.add_points(self.context.job_id, self.attempt.task_id, points, metrics)
        self._points_until = max([self._points_until, *(point.seconds for point in points)])
        self._metrics_until |= {point.name: point.seconds for point in metrics}

    def _live(self, record: JobRecord, status: TaskStatus) -> Live:
        attempt, now = self.attempt, self.context.now()
        pause = unusual_pause(status, now)
        seen = recent_speed(status) if pause == 0 else None
        done = attempt.samples_before + status.progress.samples
        work = record.samples(attempt.deployment)
        left = None if seen is None else max(0.0, work - done) / seen.samples_per_second
        spent = self.context.spent(record)
        return Live(
            task_id=attempt.task_id,
            kind=TaskKind.TRAINING,
            state=status.state,
            deployment=attempt.deployment,
            seconds=now - attempt.started_at,
            usd=status.usd,
            samples=done,
            samples_per_second=seen.samples_per_second if seen else 0.0,
            left_seconds=left,
            total_seconds=None if left is None else spent.seconds + left,
            total_usd=None if left is None else spent.usd + attempt.deployment.usd(left),
            metrics={p.name: p.value for p in status.progress.metrics if p.name != PARAMETERS},
            usage=status.progress.usage,
            saving=status.progress.saving,
            nan_loss=attempt.nan_loss,
            no_step_seconds=pause,
            seen_at=now,
            hang_seconds=self.hang_limit(record),
        )


def recent_speed(status: TaskStatus) -> Throughput | None:
    """The throughput of the last minute."""
    points = status.progress.points
    return throughput_after(points, points[-1].seconds - RECENT_SECONDS) if points else None
