"""Writes down how a stretch of training goes: money, samples, curves, and the live view."""

from __future__ import annotations

from dataclasses import replace

from mlcd.core.live import Live
from mlcd.core.progress import Progress
from mlcd.core.records import JobRecord
from mlcd.core.run import Attempt
from mlcd.core.task import TaskKind, TaskStatus
from mlcd.engine.desk import Desk
from mlcd.forecast.conditions_seen import PARAMETERS
from mlcd.forecast.throughput import Throughput, first_step_seconds, last_step_seconds, throughput_after

BOOK_SECONDS = 1.0  # how often the money so far is written down
RECENT_SECONDS = 60.0  # what "lately" means for a speed


class Books:
    """The books of one stretch; a new controller opens them anew."""

    def __init__(self, desk: Desk, attempt: Attempt) -> None:
        self.desk = desk
        self.attempt = attempt
        self._booked_at = float("-inf")
        self._curves_until = -1.0  # seconds of the stretch whose curves are stored

    def book(self, record: JobRecord, status: TaskStatus, at_last: bool = False) -> Attempt:
        """Write down what is new, at most once a second but for the last time."""
        now = self.desk.now()
        if at_last or now - self._booked_at >= BOOK_SECONDS:
            self._booked_at = now
            self.attempt = self._seen(status)
            store, job_id = self.desk.store, self.desk.job_id
            store.put_charges(job_id, self.attempt.task_id, TaskKind.TRAINING, status.charges)
            store.put_attempt(job_id, self.attempt)
            self._store_curves(status.progress)
            store.put_live(job_id, self._live(record, status))
        return self.attempt

    def close(self, attempt: Attempt) -> Attempt:
        """Write down how the stretch ended; only then is its task over."""
        self.desk.store.put_attempt(self.desk.job_id, attempt)
        self.desk.store.end_task(attempt.task_id, self.desk.now())
        why = attempt.why or "work done"
        self.desk.say("attempt", f"Stretch {attempt.number} {attempt.end}: {why}", number=attempt.number)
        return attempt

    def _seen(self, status: TaskStatus) -> Attempt:
        end = status.ended_at or self.desk.now()
        begin = status.started_at or end
        first, last = (each(status.progress.points) for each in (first_step_seconds, last_step_seconds))
        seen = lately(status)
        return replace(
            self.attempt,
            samples_per_second=seen.samples_per_second if seen else 0.0,
            samples=status.progress.samples,
            seconds=max(0.0, end - begin),
            usd=status.usd,
            first_step_at=None if first is None else begin + first,
            last_step_at=None if last is None else begin + last,
            ended_at=status.ended_at,
        )

    def _store_curves(self, progress: Progress) -> None:
        """Append what is new; what a controller before us stored already is not stored twice."""
        points = [point for point in progress.points if point.seconds > self._curves_until]
        metrics = [point for point in progress.metrics if point.seconds > self._curves_until]
        self.desk.store.add_points(self.desk.job_id, self.attempt.task_id, points, metrics)
        moments = [point.seconds for point in points] + [point.seconds for point in metrics]
        self._curves_until = max([self._curves_until, *moments])

    def _live(self, record: JobRecord, status: TaskStatus) -> Live:
        attempt, seen = self.attempt, lately(status)
        done = attempt.samples_before + status.progress.samples
        work = record.samples(attempt.deployment)
        left = None if seen is None else max(0.0, work - done) / seen.samples_per_second
        spent = self.desk.spent(record)
        return Live(
            task_id=attempt.task_id,
            kind=TaskKind.TRAINING,
            state=status.state,
            deployment=attempt.deployment,
            seconds=self.desk.now() - attempt.started_at,
            usd=status.usd,
            samples=done,
            samples_per_second=seen.samples_per_second if seen else 0.0,
            left_seconds=left,
            total_seconds=None if left is None else spent.seconds + left,
            total_usd=None if left is None else spent.usd + attempt.deployment.usd(left),
            metrics={p.name: p.value for p in status.progress.metrics if p.name != PARAMETERS},
            usage=status.progress.usage,
        )


def lately(status: TaskStatus) -> Throughput | None:
    """The throughput of the last minute."""
    points = status.progress.points
    return throughput_after(points, points[-1].seconds - RECENT_SECONDS) if points else None
