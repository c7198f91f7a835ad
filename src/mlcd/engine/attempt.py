"""One attempt at the training: launched or taken over, followed, and ended where something demands it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from mlcd.adapt.base import Keep, Move, MoveCause
from mlcd.adapt.changes import Replan
from mlcd.adapt.limits import Halt, allowed_seconds
from mlcd.core.job import OnNan
from mlcd.core.records import JobRecord, TaskRecord
from mlcd.core.run import Attempt, AttemptEnd
from mlcd.core.study import Ledger
from mlcd.core.task import EndCause, Handle, Task, TaskState, TaskStatus
from mlcd.core.units import show_duration
from mlcd.engine.adapter import Adapter
from mlcd.engine.attempt_events import AttemptEvents
from mlcd.engine.context import JobContext, goal_of
from mlcd.engine.deliver import owes_outputs
from mlcd.engine.fallback import Fallback, fall_back
from mlcd.engine.hang_detection import ActivityTracker, is_hung, no_step_seconds
from mlcd.engine.ledger import AttemptLedger, recent_speed
from mlcd.engine.limits import (
    check_limit,
    held_for_stopping,
    limit_error,
    rest_seconds,
    samples_left,
    stop_seconds,
)
from mlcd.engine.losses import losses_of
from mlcd.engine.models import most_samples
from mlcd.engine.nan_loss import nan_loss, only_checkpoints_before, samples_before_nan, stopped_at_nan
from mlcd.engine.probe_result import NOT_SHARED, SHARE_HINT, is_warm, trains_alone
from mlcd.engine.replan import record_change
from mlcd.engine.secrets import redact
from mlcd.engine.stop import StopAskedError, end_task
from mlcd.engine.targets import target_reached
from mlcd.engine.tasks import carried_samples, checkpoint_folder, training_task
from mlcd.errors import MlcdError, NoCapacityError, TaskFailedError, UserError

HUNG = "no step for too long (progress.hang_seconds allows for longer pauses)"
_NOT_STARTED = (EndCause.NO_CAPACITY, EndCause.REFUSED, EndCause.CLOUD_FAILED)


class AttemptRunner:
    """Runs one attempt, from its launch or where it was taken over."""

    def __init__(self, context: JobContext, record: JobRecord, task_record: TaskRecord) -> None:
        self.context = context
        self.record = record
        self.task_record = task_record
        self.task = self._task()
        self.ledger = AttemptLedger(context, self._attempt())
        self.events = AttemptEvents(context, self.task)
        self.adapter = Adapter(context, record)
        self.handle: Handle = ""
        self.fallback = Fallback.KEPT
        self.signs = ActivityTracker(context.now())

    def follow(self) -> Attempt:
        """Watch it until it has ended and its cost is recorded."""
        try:
            self.handle = self.context.launch(self.task_record, self.task)
        except NoCapacityError as error:
            status = TaskStatus(TaskState.FAILED, reason=error.message, cause=EndCause.NO_CAPACITY)
            return self._close(status, AttemptEnd.LOST, _in_words(status))
        while True:
            status = self.context.status(self.handle)
            self.events.report(self.ledger.update(self.record, status), status)
            self._check_nan(status)
            if status.state.ended:
                return self._end(status)
            if (ended := self._decide(status)) is not None:
                return ended
            self.context.cloud.clock.sleep(self.context.cloud.poll_seconds)
            self.record = self.context.load_record()

    def _task(self) -> Task:
        """From the newest complete checkpoint, with the limits for the cloud to keep by itself."""
        deployment, record = self.task_record.deployment, self.record
        needed, spent = rest_seconds(self.context, record), self.context.spent(record)
        held = held_for_stopping(self.context, record, deployment, spent, needed)
        allowed = allowed_seconds(goal_of(record), spent, deployment, held)
        samples = most_samples(self.context, record, deployment)
        before = self._known.samples_before if self._known else carried_samples(self.context.folder)
        lost = losses_of(deployment, self.context.store.attempts(self.context.job_id)).mean_seconds
        limit = max(1.0, allowed)
        task = training_task(record.job, self.task_record, self.context.folder, samples, before, limit, lost)
        shorter = stop_seconds(self.context, record) - held
        return replace(task, grace_seconds=max(0.0, task.grace_seconds - shorter), expected_seconds=needed)

    @cached_property
    def _known(self) -> Attempt | None:
        """The attempt as a controller before us has begun it."""
        attempts = self.context.store.attempts(self.context.job_id)
        return next((attempt for attempt in attempts if attempt.task_id == self.task_record.id), None)

    def _attempt(self) -> Attempt:
        """The attempt as it was begun, by us or by the controller before us."""
        task, before = self.task_record, self.task.samples_before
        if self._known is not None:
            return self._known
        attempt = Attempt(task.id, task.number, task.deployment, self.context.now(), before)
        self.context.store.put_attempt(self.context.job_id, attempt)
        anew = " from the beginning: there is no checkpoint" if task.number > 1 else ""
        begin = f" from {before:,.0f} samples" if before > 0 else anew
        self.context.add_event("attempt", f"Training on {attempt.deployment}{begin}", number=attempt.number)
        return attempt

    # While it runs

    def _decide(self, status: TaskStatus) -> Attempt | None:
        """End the attempt where the user, the target, a limit, silence or a better place demands it."""
        if self.record.stop_asked:
            self._stop(AttemptEnd.STOPPED, EndCause.STOPPED, "stopped by the user")
            raise StopAskedError
        if self.task.until is not None and target_reached(self.task, status):
            why = f"{self.task.until.metric} reached its target"
            return self._stop(AttemptEnd.FINISHED, EndCause.TARGET_REACHED, why)
        self._check_limits(status)
        self._check_shared(status)
        if self._is_hung(status):
            return self._stop_hung(status)
        course = self._course(status)
        if isinstance(course, Replan):
            return self._replan(course, status)
        return self._move(course) if isinstance(course, Move) and self._may_move(course) else None

    def _check_limits(self, status: TaskStatus) -> None:
        deployment, held = self.task_record.deployment, self._held(status)
        decision = check_limit(self.record, deployment, self._spent(status), held)
        if isinstance(decision, Halt):
            self._stop(AttemptEnd.STOPPED, EndCause(decision.limit.value), decision.why)
            raise limit_error(self.context, self.record, decision)

    def _check_shared(self, status: TaskStatus) -> None:
        if trains_alone(status, is_warm(status, self.record.job.probe)):
            self._stop(AttemptEnd.FAILED, EndCause.NOT_SHARED, NOT_SHARED)
            raise TaskFailedError(f"On {self.task_record.deployment} {NOT_SHARED}.", SHARE_HINT)

    def _check_nan(self, status: TaskStatus) -> None:
        """Warn of a loss that is nan or infinite, and stop there where the job asks for it."""
        lost = nan_loss(status.progress, self.task.until)
        if lost is None:
            return
        since = samples_before_nan(status.progress, lost, self.task.samples_before)
        what = f"{lost.name} is {lost.value:g} since about {since:,.0f} samples"
        stops = self.record.job.on_nan is OnNan.STOP
        self.events.report_nan(lost.name, what if stops else f"{what}; it goes on (on_nan: warn)")
        if stops:
            self._stop_at_nan(since, what)

    def _stop_at_nan(self, since: float, what: str) -> None:
        """Nobody goes on from a state that is saved after it; the newest from before stays."""
        with only_checkpoints_before(checkpoint_folder(self.context.folder), since):
            status = end_task(self.context, self.handle, self.task.grace_seconds)
        self._close(status, AttemptEnd.STOPPED, what, EndCause.NAN_LOSS)
        tail = redact(status.log_tail, self.context.secrets)
        raise stopped_at_nan(self.record.id, self.context.folder, what, tail)

    def _is_hung(self, status: TaskStatus) -> bool:
        now, limit = self.context.now(), self.ledger.hang_limit(self.record)
        return is_hung(self.task, status, now, self.signs.silent_seconds(status, now), limit)

    def _stop_hung(self, status: TaskStatus) -> Attempt:
        """End it as failed; the next attempt is given longer, in case it was only slow."""
        pause = no_step_seconds(status, self.context.now())
        longest = max(pause, self.ledger.attempt.longest_pause_seconds)
        self.ledger.attempt = replace(self.ledger.attempt, longest_pause_seconds=longest)
        self.context.add_event("decision", f"No step for {show_duration(pause)}: starting again")
        return self._stop(AttemptEnd.FAILED, EndCause.HUNG, HUNG)

    def _held(self, status: TaskStatus) -> float:
        """What is held back for stopping: no less than what the cloud got when it was launched."""
        if not goal_of(self.record).limited:
            return 0.0
        least = self.task.grace_seconds + 2.0 * self.context.cloud.poll_seconds
        done, seen = self.task.samples_before + status.progress.samples, recent_speed(status)
        left = samples_left(self.context, self.record, done)
        needed = rest_seconds(self.context, self.record) if seen is None else left / seen.samples_per_second
        where, spent = self.task_record.deployment, self._spent(status)
        return held_for_stopping(self.context, self.record, where, spent, needed, least)

    def _spent(self, status: TaskStatus) -> Ledger:
        """Time and money so far, charges that are not recorded yet included."""
        spent = self.context.spent(self.record)
        return Ledger(spent.seconds, spent.usd - self.ledger.attempt.usd + status.usd)

    def _course(self, status: TaskStatus) -> Keep | Move | Replan:
        """Where the user wants the training to go on, or else the policies."""
        asked = self.record.move_asked
        if asked is not None and asked != self.task_record.deployment:
            return Move(asked, "the user asked for it", MoveCause.USER)
        return self.adapter.consider(self.record, self.ledger.attempt, status)

    def _may_move(self, move: Move) -> bool:
        """Whether the job can run there; else it stays where it is, and that place is not considered again."""
        try:
            self.context.refuse_unfit(self.task, move.deployment)
        except MlcdError as error:
            self.context.add_event("warning", f"Not moving to {move.deployment}: {error.message}")
            self.adapter.leave_out(move.deployment)
            self.context.change(move_asked=None)
            return False
        return True

    def _move(self, move: Move) -> Attempt:
        """Save, stop, and let the next attempt run elsewhere."""
        data = {"deployment": move.deployment.key, "cause": move.cause.value}
        self.context.add_event("decision", f"Moving to {move.deployment}: {move.why}", **data)
        attempt = self._stop(AttemptEnd.MOVED, EndCause.MOVE, f"moving to {move.deployment}")
        by_user = move.cause is MoveCause.USER
        self.context.change(moved_to=move.deployment, move_asked=None, moved_by_user=by_user)
        return attempt

    def _replan(self, decision: Replan, status: TaskStatus) -> Attempt:
        """Save and stop; which machines the next attempt runs on is to be found."""
        self.context.add_event("decision", f"Replanning: {decision.why}")
        attempt = self._stop(AttemptEnd.MOVED, EndCause.REPLAN, "replanning")
        record_change(self.context, attempt, status, decision)
        return attempt

    # The end

    def _stop(self, end: AttemptEnd, cause: EndCause, why: str) -> Attempt:
        status = end_task(self.context, self.handle, self.task.grace_seconds)
        return self._close(status, end, why, cause)

    def _end(self, status: TaskStatus) -> Attempt:
        """Record how it ended by itself, or by the cloud's doing."""
        if status.state is TaskState.SUCCEEDED or target_reached(self.task, status):
            less = self.events.report_less(status)
            return self._close(status, AttemptEnd.FINISHED, status.reason or less)
        if status.state is TaskState.LOST:
            return self._close(status, AttemptEnd.LOST, status.reason or "the machine is gone")
        if status.cause in _NOT_STARTED:
            return self._end_of_not_started(status)
        if self._failed_at_exit(status):
            return self._close(status, AttemptEnd.FINISHED, self.events.report_failed_exit(status))
        if status.state is TaskState.FAILED:
            # First: a controller that dies here does it again.
            self.fallback = fall_back(self.context, self.task.id, status)
            return self._close(status, AttemptEnd.FAILED, _in_words(status))
        return self._end_of_stopped(status)

    def _failed_at_exit(self, status: TaskStatus) -> bool:
        """Whether all the work is in a committed checkpoint and only the program's end failed: nothing is trained again.

        Outputs that the job names and that are not there, or are cut off, are worth one more start, which makes no step.
        """
        if status.state is not TaskState.FAILED or not status.exit_code:
            return False  # without a code of its own: its results did not come home, or it never ran
        trained = carried_samples(self.context.folder) - self.task.samples_before
        owes = owes_outputs(self.context, self.task_record.id, self.record.job.outputs)
        done = 0.0 < self.task.samples <= trained and not owes
        return done or (self.task.all_trained and trained >= 0.0)

    def _end_of_not_started(self, status: TaskStatus) -> Attempt:
        """The cloud could not start it: it is tried again, unless something has to be changed first."""
        attempt = self._close(status, AttemptEnd.LOST, _in_words(status))
        if status.cause is EndCause.REFUSED:
            raise UserError(status.reason, status.hint)
        return attempt

    def _end_of_stopped(self, status: TaskStatus) -> Attempt:
        """The cloud stopped it: at the time limit that it keeps by itself, or because someone asked it to.

        That limit is as old as the attempt: where the user has raised his since, the next attempt goes on.
        """
        attempt = self._close(status, AttemptEnd.STOPPED, status.reason)
        if status.cause is not EndCause.TIME_LIMIT or self.record.stop_asked:
            raise StopAskedError
        twice = 2.0 * stop_seconds(self.context, self.record)
        decision = check_limit(self.record, attempt.deployment, self._spent(status), twice)
        if isinstance(decision, Halt):
            raise limit_error(self.context, self.record, decision)
        return attempt

    def _close(self, status: TaskStatus, end: AttemptEnd, why: str, cause: EndCause | None = None) -> Attempt:
        """Record the end; without a cause that was decided here it is the cloud's."""
        attempt = self.ledger.update(self.record, status, at_last=True)
        ended_at = attempt.ended_at or self.context.now()
        exit_code = status.exit_code if cause is None else None
        ended = replace(attempt, end=end, why=why, cause=cause or status.cause, exit_code=exit_code)
        return self.ledger.close(replace(ended, ended_at=ended_at))


def _in_words(status: TaskStatus) -> str:
    """Why it failed, for people."""
    if status.cause is EndCause.NO_CAPACITY:
        return f"{status.cause}: {status.reason}"
    return status.reason or ("" if status.exit_code is None else f"exit code {status.exit_code}")
