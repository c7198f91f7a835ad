"""The training: launched, followed, restarted after failures and losses, halted before a limit, handed over."""

from __future__ import annotations

from dataclasses import replace

from mlcd.adapt.limits import Halt, Limit, allowed_seconds, keep_or_halt
from mlcd.core.live import Live
from mlcd.core.progress import Progress
from mlcd.core.records import JobRecord, TaskRecord
from mlcd.core.run import Attempt, AttemptEnd, Run
from mlcd.core.study import Ledger
from mlcd.core.task import Task, TaskKind, TaskState, TaskStatus
from mlcd.core.units import show_duration, show_usd
from mlcd.engine.desk import Desk, goal_of, work_of
from mlcd.engine.ending import end_task
from mlcd.engine.handing_over import hand_over
from mlcd.engine.searching import StopAskedError
from mlcd.engine.secrets import redact
from mlcd.engine.tasks import carried_samples, training_task
from mlcd.errors import (
    BudgetExhaustedError,
    CloudError,
    DeadlineMissedError,
    LimitReachedError,
    TaskFailedError,
)
from mlcd.forecast.throughput import throughput_after

BOOK_SECONDS = 1.0  # how often the money so far is written down
RECENT_SECONDS = 60.0  # what "lately" means for the speed shown
HANG_FACTOR = 5.0  # × the probe's patience: a training may pause to evaluate or to save


class Training:
    """The training of one job; a new controller makes it anew from the store and goes on where it is."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.ended_at = 0.0  # when the last stretch ended, on the cloud's clock
        self._booked_at = float("-inf")
        self._curves_until = -1.0  # seconds of the stretch whose curves are stored

    def run(self) -> str:
        """Train until the work is done; gives the model's folder."""
        while True:
            record = self.desk.record
            task = self._open_task() or self._begin(record)
            attempt = self._follow(record, task)
            if attempt.end is AttemptEnd.FINISHED:
                return hand_over(self.desk, task.id)
            self._refuse_too_many(record, attempt)

    def _open_task(self) -> TaskRecord | None:
        tasks = self.desk.store.tasks(self.desk.job_id, open_only=True)
        return next((task for task in tasks if task.kind is TaskKind.TRAINING), None)

    def _begin(self, record: JobRecord) -> TaskRecord:
        """Intend the next stretch, unless a limit is reached already."""
        assert record.plan is not None
        deployment = record.plan.deployment
        self._halt_if_needed(
            record,
            keep_or_halt(goal_of(record), self.desk.spent(record), deployment, self._stop_seconds(record)),
        )
        return self.desk.intend(TaskKind.TRAINING, deployment)

    def _follow(self, record: JobRecord, task_record: TaskRecord) -> Attempt:
        """Watch one stretch until it has ended and is booked."""
        task = self._task(record, task_record)
        attempt = self._attempt(task_record, task)
        handle = self.desk.launch(task_record, task)
        while True:
            status = self.desk.cloud.status(handle)
            self._book(record, attempt, status)
            if status.state.ended:
                return self._end(record, attempt, status)
            self._decide(record, task, attempt, handle, status)
            self.desk.cloud.clock.sleep(self.desk.cloud.poll_seconds)
            record = self.desk.record

    def _task(self, record: JobRecord, task_record: TaskRecord) -> Task:
        """From the newest complete checkpoint, with the limits for the cloud to keep by itself."""
        spent = self.desk.spent(record)
        allowed = allowed_seconds(goal_of(record), spent, task_record.deployment, self._stop_seconds(record))
        samples = record.samples(task_record.deployment)
        return training_task(record.job, task_record, self.desk.folder, samples, max(1.0, allowed))

    def _attempt(self, task_record: TaskRecord, task: Task) -> Attempt:
        """The stretch as it was begun, by us or by the controller before us."""
        known = {attempt.task_id: attempt for attempt in self.desk.store.attempts(self.desk.job_id)}
        attempt = known.get(task_record.id)
        if attempt is None:
            attempt = Attempt(
                task_record.id,
                task_record.number,
                task_record.deployment,
                self.desk.now(),
                task.samples_before,
            )
            self.desk.store.put_attempt(self.desk.job_id, attempt)
            begin = "" if attempt.samples_before == 0 else f" from {attempt.samples_before:,.0f} samples"
            self.desk.say("attempt", f"Training on {attempt.deployment}{begin}", number=attempt.number)
        return attempt

    def _decide(
        self, record: JobRecord, task: Task, attempt: Attempt, handle: str, status: TaskStatus
    ) -> None:
        """End the stretch where the user, the target, a limit or silence demands it."""
        if record.stop_asked:
            self._stop(record, task, attempt, handle, "stopped by the user")
            raise StopAskedError
        if target_reached(task, status):
            assert task.until is not None
            self.desk.say(
                "decision", f"{task.until.metric} has reached {task.until.value:g}: the work is done"
            )
            self.desk.cloud.stop(handle)
        goal, spent = goal_of(record), self.desk.spent(record)
        verdict = keep_or_halt(
            goal, self._up_to_now(spent, attempt, status), attempt.deployment, self._stop_seconds(record)
        )
        if isinstance(verdict, Halt):
            self._stop(record, task, attempt, handle, verdict.why)
            self._halt_if_needed(record, verdict)
        if hangs(task, status, self.desk.now(), HANG_FACTOR * record.job.probe.silent_seconds):
            self.desk.say("decision", "No step for too long: ending the stretch to start it again")
            self._stop(record, task, attempt, handle, "hung", AttemptEnd.FAILED)

    def _up_to_now(self, spent: Ledger, attempt: Attempt, status: TaskStatus) -> Ledger:
        """Money so far, the charges that are not booked yet included."""
        booked = sum(
            item.usd for item in self.desk.store.bill(self.desk.job_id) if item.task_id == attempt.task_id
        )
        return Ledger(spent.seconds, spent.usd - booked + status.usd)

    def _stop(
        self,
        record: JobRecord,
        task: Task,
        attempt: Attempt,
        handle: str,
        why: str,
        end: AttemptEnd = AttemptEnd.STOPPED,
    ) -> None:
        status = end_task(self.desk.cloud, handle, task.grace_seconds)
        self._book(record, attempt, status, at_last=True)
        self._close(replace(self._seen(attempt, status), end=end, why=why))

    def _end(self, record: JobRecord, attempt: Attempt, status: TaskStatus) -> Attempt:
        """Book how the stretch ended."""
        self.ended_at = status.ended_at or self.desk.now()
        self._book(record, attempt, status, at_last=True)
        attempt = self._seen(attempt, status)
        if status.state is TaskState.SUCCEEDED or self._met_target(record, status):
            attempt = replace(attempt, end=AttemptEnd.FINISHED, why=status.reason)
        elif status.state is TaskState.STOPPED:
            self._close(replace(attempt, end=AttemptEnd.STOPPED, why=status.reason))
            self._halt_if_needed(record, self._which_limit(record, attempt))
            raise StopAskedError
        elif status.state is TaskState.LOST:
            attempt = replace(attempt, end=AttemptEnd.LOST, why=status.reason or "the machine is gone")
        else:
            code = "" if status.exit_code is None else f"exit code {status.exit_code}"
            attempt = replace(attempt, end=AttemptEnd.FAILED, why=status.reason or code)
        self._close(attempt)
        return attempt

    def _met_target(self, record: JobRecord, status: TaskStatus) -> bool:
        until = work_of(record.job).until
        value = status.progress.latest(until.metric) if until else None
        return (
            status.state is TaskState.STOPPED
            and until is not None
            and value is not None
            and until.reached(value)
        )

    def _which_limit(self, record: JobRecord, attempt: Attempt) -> Halt | None:
        """The limit at which the cloud itself ended the stretch, if it was one."""
        if "time limit" not in attempt.why:
            return None
        verdict = keep_or_halt(
            goal_of(record), self.desk.spent(record), attempt.deployment, 2.0 * self._stop_seconds(record)
        )
        return verdict if isinstance(verdict, Halt) else None

    def _close(self, attempt: Attempt) -> None:
        self.desk.store.put_attempt(self.desk.job_id, attempt)
        self.desk.store.end_task(attempt.task_id, self.desk.now())
        self.desk.say(
            "attempt",
            f"Stretch {attempt.number} {attempt.end}: {attempt.why or 'work done'}",
            number=attempt.number,
        )
        self._curves_until = -1.0

    def _book(self, record: JobRecord, attempt: Attempt, status: TaskStatus, at_last: bool = False) -> None:
        """Write down money, curves and the live view."""
        now = self.desk.now()
        if not at_last and now - self._booked_at < BOOK_SECONDS:
            return
        self._booked_at = now
        store, job_id = self.desk.store, self.desk.job_id
        store.put_charges(job_id, attempt.task_id, TaskKind.TRAINING, status.charges)
        store.put_attempt(job_id, self._seen(attempt, status))
        self._store_curves(attempt.task_id, status.progress)
        store.put_live(job_id, self._live(record, attempt, status))

    def _store_curves(self, task_id: str, progress: Progress) -> None:
        """Append what is new; what a controller before us stored already is not stored twice."""
        points = [point for point in progress.points if point.seconds > self._curves_until]
        metrics = [point for point in progress.metrics if point.seconds > self._curves_until]
        self.desk.store.add_points(self.desk.job_id, task_id, points, metrics)
        moments = [point.seconds for point in points] + [point.seconds for point in metrics]
        self._curves_until = max([self._curves_until, *moments])

    def _seen(self, attempt: Attempt, status: TaskStatus) -> Attempt:
        end = status.ended_at or self.desk.now()
        begin = status.started_at or end
        return replace(
            attempt, samples=status.progress.samples, seconds=max(0.0, end - begin), usd=status.usd
        )

    def _live(self, record: JobRecord, attempt: Attempt, status: TaskStatus) -> Live:
        points = status.progress.points
        since = points[-1].seconds - RECENT_SECONDS if points else 0.0
        seen = throughput_after(points, since)
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
            metrics={point.name: point.value for point in status.progress.metrics},
            usage=status.progress.usage,
        )

    def _halt_if_needed(self, record: JobRecord, verdict: object) -> None:
        """Raise what tells the user which limit was reached and what going on would cost."""
        if not isinstance(verdict, Halt):
            return
        raise limit_error(verdict, self._cost_of_the_rest(record), record.id)

    def _cost_of_the_rest(self, record: JobRecord) -> Ledger:
        """What the samples that are not in a checkpoint yet would still take."""
        assert record.plan is not None
        plan = record.plan
        work = record.samples(plan.deployment)
        done = carried_samples(self.desk.folder)
        attempts = self.desk.store.attempts(self.desk.job_id)
        trained, took = sum(a.samples for a in attempts), sum(a.seconds for a in attempts)
        speed = trained / took if trained > 0 else work / plan.forecast.seconds
        seconds = max(0.0, work - done) / speed
        return Ledger(seconds, plan.deployment.usd(seconds))

    def _refuse_too_many(self, record: JobRecord, attempt: Attempt) -> None:
        """Restart from the newest checkpoint, with separate counters for failures and losses."""
        run = Run(self.desk.store.attempts(self.desk.job_id))
        settings = record.job.checkpoint
        if run.count(AttemptEnd.LOST) > settings.max_losses:
            raise CloudError(
                f"The training was lost {run.count(AttemptEnd.LOST)} times; the last: {attempt.why}.",
                f"`mlcd resume {record.id}` tries again from the newest checkpoint.",
            )
        if run.count(AttemptEnd.FAILED) > settings.max_failures:
            tail = self.desk.cloud.status(self.desk.store.task(attempt.task_id).handle or "").log_tail
            raise TaskFailedError(
                f"The training failed {run.count(AttemptEnd.FAILED)} times; the last: {attempt.why}.",
                f"Mend the program, then `mlcd resume {record.id}` goes on from the newest checkpoint.",
                redact(tail, self.desk.secrets),
            )

    def _stop_seconds(self, record: JobRecord) -> float:
        """What stopping may take at the most: the grace, and a look or two."""
        return record.job.checkpoint.grace_seconds + 2.0 * self.desk.cloud.poll_seconds


def target_reached(task: Task, status: TaskStatus) -> bool:
    """Whether the metric that ends the training has got there."""
    value = status.progress.latest(task.until.metric) if task.until else None
    return task.until is not None and value is not None and task.until.reached(value)


def hangs(task: Task, status: TaskStatus, now: float, patience_seconds: float) -> bool:
    """Whether a training that has made steps makes none any more, with work left to do."""
    points = status.progress.points
    if status.started_at is None or not points or points[-1].steps <= 0:
        return False
    if task.samples > 0 and points[-1].samples >= 0.98 * task.samples:
        return False  # it may be evaluating or saving
    newest = next(point.seconds for point in points if point.samples >= points[-1].samples)
    return now - status.started_at - newest > patience_seconds


def limit_error(halt: Halt, rest: Ledger, job_id: str) -> LimitReachedError:
    """What was reached, and what going on would take."""
    cost = f"about {show_usd(rest.usd)} and {show_duration(rest.seconds)} more"
    if halt.limit is Limit.BUDGET:
        return BudgetExhaustedError(
            f"Stopped with a checkpoint before the budget was passed: {halt.why}. To finish takes {cost}.",
            f"To go on: mlcd resume {job_id} --budget AMOUNT",
        )
    return DeadlineMissedError(
        f"Stopped with a checkpoint: {halt.why}. To finish takes {cost}.",
        f"To go on: mlcd resume {job_id} --deadline TIME",
    )
