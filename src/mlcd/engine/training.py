"""The training: launched, followed, moved, restarted after failures and losses, halted before a limit."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from mlcd.adapt.base import Keep, Move
from mlcd.adapt.changes import Replan
from mlcd.adapt.limits import Halt, allowed_seconds
from mlcd.core.job import Job, OnNan
from mlcd.core.records import JobRecord, TaskRecord
from mlcd.core.run import REPLANNING, Attempt, AttemptEnd, Run
from mlcd.core.study import Ledger
from mlcd.core.task import Handle, Refusal, Task, TaskKind, TaskState, TaskStatus
from mlcd.core.units import show_duration
from mlcd.engine.adapter import Adapter
from mlcd.engine.adopt_probe import adopt_finished_probe
from mlcd.engine.context import JobContext, goal_of
from mlcd.engine.deliver import deliver, outputs_of, owes_outputs
from mlcd.engine.fallback import Fallback, fall_back
from mlcd.engine.hang_detection import SignsOfLife, is_hung, no_step_seconds
from mlcd.engine.ledger import AttemptLedger, lately
from mlcd.engine.limits import (
    check_limit,
    check_rental,
    held_for_stopping,
    limit_error,
    rest_seconds,
    samples_left,
    stop_seconds,
    to_first_step,
)
from mlcd.engine.missing_modules import refuse_missing_module
from mlcd.engine.models import keep_model, most_samples
from mlcd.engine.nan_loss import nan_loss, only_checkpoints_before, samples_before_nan, stopped_at_nan
from mlcd.engine.probe_result import NO_CAPACITY, NOT_SHARED, SHARE_HINT, is_warm, trains_alone
from mlcd.engine.replan import note_change, replan
from mlcd.engine.search import StopAskedError
from mlcd.engine.secrets import redact
from mlcd.engine.stop import end_task
from mlcd.engine.targets import target_reached, unseen_target
from mlcd.engine.tasks import carried_samples, checkpoint_folder, training_task
from mlcd.errors import CloudError, NoCapacityError, TaskFailedError, UserError

SOLD_OUT_SECONDS = 60.0  # before machines that could not be had are asked for again
BY_USER = "the user asked for it"
HUNG = "no step for too long (progress.hang_seconds allows for longer pauses)"
MORE_THAN_WORK = 1.1
LESS_THAN_WORK = 0.9


class Training:
    """The training of one job; a new controller makes it anew from the store and goes on where it is."""

    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.ended_at = 0.0  # when the last attempt ended, on the cloud's clock

    def run(self) -> str:
        """Train until the work is done; gives the model's folder."""
        adopt_finished_probe(self.context, self.context.record)
        while (done := self._finished()) is None:
            if self.context.record.replanning:
                replan(self.context)
                adopt_finished_probe(self.context, self.context.record)
                continue
            record = self.context.record
            task = self._open_task() or self._begin(record)
            runner = AttemptRunner(self.context, record, task)
            attempt = runner.follow()
            if attempt.end is not AttemptEnd.FINISHED:
                self._refuse_too_many(record, attempt, runner.back)
            if attempt.end is AttemptEnd.LOST:
                self._reconsider(self.context.record, attempt)
        self.ended_at = done.ended_at or self.context.now()
        keep_model(self.context, self.context.record)
        return deliver(self.context, done.task_id)

    def _finished(self) -> Attempt | None:
        """The attempt that did the work; what a controller before us finished is not trained again."""
        attempts = self.context.store.attempts(self.context.job_id)
        finished = (attempt for attempt in attempts if attempt.end is AttemptEnd.FINISHED)
        return None if self._open_task() else next(finished, None)

    def _open_task(self) -> TaskRecord | None:
        tasks = self.context.store.tasks(self.context.job_id, open_only=True)
        return next((task for task in tasks if task.kind is TaskKind.TRAINING), None)

    def _begin(self, record: JobRecord) -> TaskRecord:
        """Intend the next attempt, unless the user wants to stop or a limit would be reached before its first step."""
        if record.stop_asked:
            raise StopAskedError
        needed, spent = rest_seconds(self.context, record), self.context.spent(record)
        held = held_for_stopping(self.context, record, record.deployment, spent, needed)
        decision = check_rental(record, record.deployment, spent, held + to_first_step(self.context, record))
        if isinstance(decision, Halt):
            raise limit_error(self.context, record, decision)
        return self.context.intend(TaskKind.TRAINING, record.deployment)

    def _refuse_too_many(self, record: JobRecord, attempt: Attempt, back: Fallback) -> None:
        """Restart from the newest checkpoint, with separate counters for failures and losses."""
        run = Run(self.context.store.attempts(self.context.job_id))
        settings = record.job.checkpoint
        if run.count(AttemptEnd.LOST) > settings.max_losses:
            raise CloudError(
                f"The training was lost {run.count(AttemptEnd.LOST)} times; the last: {attempt.why}.",
                f"`mlcd resume {record.id}` tries again from the newest checkpoint.",
            )
        if attempt.end is AttemptEnd.FAILED and attempt.samples == 0:
            refuse_missing_module(self._log_tail(attempt), attempt.deployment.offer.cloud)
        if back is Fallback.NONE_LEFT:
            raise TaskFailedError(
                f"The program fails before its first step from each of its checkpoints; the last: {attempt.why}.",
                f"Fix the program, then `mlcd resume {record.id}` goes on from the newest checkpoint. To begin anew instead, "
                f"move {checkpoint_folder(self.context.folder)} away first.",
                self._log_tail(attempt),
            )
        if back is Fallback.TAKEN:
            return  # it was the checkpoint: the one before is tried, however often the program has failed
        if run.count(AttemptEnd.FAILED) > settings.max_failures or _fails_alike(run):
            place = "the newest checkpoint" if carried_samples(self.context.folder) > 0 else "the beginning"
            raise TaskFailedError(
                f"The training failed {run.count(AttemptEnd.FAILED)} times; the last: {attempt.why}.",
                f"Fix the program, then `mlcd resume {record.id}` goes on from {place}.",
                self._log_tail(attempt),
            )

    def _log_tail(self, attempt: Attempt) -> str:
        handle = self.context.store.task(attempt.task_id).handle or ""
        return redact(self.context.cloud.status(handle).log_tail, self.context.secrets)

    def _reconsider(self, record: JobRecord, attempt: Attempt) -> None:
        """After a loss: go on elsewhere where the deadline asks for it, or where there are no machines to be had."""
        sold_out = attempt.why.startswith(NO_CAPACITY)
        course = Adapter(self.context, record).after_loss(record, attempt, sold_out)
        if isinstance(course, Move):
            told = f"Going on with {course.deployment}: {course.why}"
            self.context.add_event("decision", told, deployment=course.deployment.key)
            self.context.change(moved_to=course.deployment)
        elif sold_out:
            self.context.cloud.clock.sleep(SOLD_OUT_SECONDS)


class AttemptRunner:
    """One unbroken piece of the training, from its launch or where it was taken over."""

    def __init__(self, context: JobContext, record: JobRecord, task_record: TaskRecord) -> None:
        self.context = context
        self.record = record
        self.task_record = task_record
        self.task = self._task()
        self.ledger = AttemptLedger(context, self._attempt())
        self.adapter = Adapter(context, record)
        self.handle: Handle = ""
        self.moved_from = self._moved_from()
        self.reported_more = False
        self.reported_unseen = False
        self.back = Fallback.KEPT
        self.reported_notes = 0
        self.reported_nan = ""
        self.signs = SignsOfLife(context.now())

    def follow(self) -> Attempt:
        """Watch it until it has ended and its cost is recorded."""
        try:
            self.handle = self.context.launch(self.task_record, self.task)
        except NoCapacityError as error:
            why = f"{NO_CAPACITY}: {error.message}"
            return self._close(TaskStatus(TaskState.FAILED, reason=why), AttemptEnd.LOST, why)
        while True:
            status = self.context.status(self.handle)
            self._report_downtime(self.ledger.update(self.record, status))
            self._report_more(status)
            self._report_notes(status)
            self._report_unseen_target(status)
            self._check_nan(status)
            if status.state.ended:
                return self._end(status)
            if (ended := self._decide(status)) is not None:
                return ended
            self.context.cloud.clock.sleep(self.context.cloud.poll_seconds)
            self.record = self.context.record

    def _task(self) -> Task:
        """From the newest complete checkpoint, with the limits for the cloud to keep by itself."""
        deployment, record = self.task_record.deployment, self.record
        needed, spent = rest_seconds(self.context, record), self.context.spent(record)
        held = held_for_stopping(self.context, record, deployment, spent, needed)
        allowed = allowed_seconds(goal_of(record), spent, deployment, held)
        samples = most_samples(self.context, record, deployment)
        before = self._known.samples_before if self._known else carried_samples(self.context.folder)
        task = training_task(
            record.job, self.task_record, self.context.folder, samples, before, max(1.0, allowed)
        )
        shorter = stop_seconds(self.context, record) - held
        return replace(task, grace_seconds=max(0.0, task.grace_seconds - shorter))

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

    def _moved_from(self) -> Attempt | None:
        """The attempt before this one, if it ended by moving here."""
        before = [
            each
            for each in self.context.store.attempts(self.context.job_id)
            if each.number < self.task_record.number
        ]
        moved = before and before[-1].end is AttemptEnd.MOVED and before[-1].why != REPLANNING
        return before[-1] if moved else None

    def _decide(self, status: TaskStatus) -> Attempt | None:
        """End the attempt where the user, the target, a limit, silence or a better place demands it."""
        if self.record.stop_asked:
            self._stop(AttemptEnd.STOPPED, "stopped by the user")
            raise StopAskedError
        if target_reached(self.task, status):
            return self._stop(AttemptEnd.FINISHED, f"{self.record.job.work.until.metric} reached its target")  # type: ignore[union-attr]  # a target is what was reached
        decision = check_limit(
            self.record, self.task_record.deployment, self._spent(status), self._held(status)
        )
        if isinstance(decision, Halt):
            self._stop(AttemptEnd.STOPPED, decision.why)
            raise limit_error(self.context, self.record, decision)
        if trains_alone(status, is_warm(status, self.record.job.probe)):
            self._stop(AttemptEnd.FAILED, NOT_SHARED)
            raise TaskFailedError(f"On {self.task_record.deployment} {NOT_SHARED}.", SHARE_HINT)
        if self._is_hung(status):
            return self._stop_hung(status)
        course = self._course(status)
        if isinstance(course, Replan):
            return self._replan(course, status)
        return self._move(course) if isinstance(course, Move) else None

    def _check_nan(self, status: TaskStatus) -> None:
        """Tell of a loss that is nan or infinite, and stop there where the job asks for it."""
        lost = nan_loss(status.progress, self.task.until)
        if lost is None:
            return
        since = samples_before_nan(status.progress, lost, self.task.samples_before)
        told = f"{lost.name} is {lost.value:g} since about {since:,.0f} samples"
        data = {"metric": lost.name, "nan": self.task_record.id}
        if self.reported_nan != lost.name:
            self.reported_nan = lost.name
            words = redact(f"{told}{_goes_on(self.record.job)}", self.context.secrets)
            self.context.store.add_event_once(self.context.job_id, self.context.now(), "warning", words, data)
        if self.record.job.on_nan is OnNan.STOP:
            self._stop_at_nan(since, told)

    def _stop_at_nan(self, since: float, told: str) -> None:
        """Nobody goes on from a state that is saved after it; the newest from before stays."""
        with only_checkpoints_before(checkpoint_folder(self.context.folder), since):
            status = end_task(self.context, self.handle, self.task.grace_seconds)
        self._close(status, AttemptEnd.STOPPED, told)
        tail = redact(status.log_tail, self.context.secrets)
        raise stopped_at_nan(self.record.id, self.context.folder, told, tail)

    def _is_hung(self, status: TaskStatus) -> bool:
        now, limit = self.context.now(), self.ledger.hang_limit(self.record)
        return is_hung(self.task, status, now, self.signs.silent_seconds(status, now), limit)

    def _stop_hung(self, status: TaskStatus) -> Attempt:
        """End it as failed; the next attempt is given longer, in case it was only slow."""
        pause = no_step_seconds(status, self.context.now())
        longest = max(pause, self.ledger.attempt.longest_pause_seconds)
        self.ledger.attempt = replace(self.ledger.attempt, longest_pause_seconds=longest)
        self.context.add_event("decision", f"No step for {show_duration(pause)}: starting again")
        return self._stop(AttemptEnd.FAILED, HUNG)

    def _held(self, status: TaskStatus) -> float:
        """What is held back for stopping: no less than what the cloud was told when it was launched."""
        if not goal_of(self.record).limited:
            return 0.0
        least = self.task.grace_seconds + 2.0 * self.context.cloud.poll_seconds
        done, seen = self.task.samples_before + status.progress.samples, lately(status)
        left = samples_left(self.context, self.record, done)
        needed = rest_seconds(self.context, self.record) if seen is None else left / seen.samples_per_second
        where, spent = self.task_record.deployment, self._spent(status)
        return held_for_stopping(self.context, self.record, where, spent, needed, least)

    def _course(self, status: TaskStatus) -> Keep | Move | Replan:
        """Where the user wants the training to go on, or else the policies."""
        asked = self.record.move_asked
        if asked is not None and asked != self.task_record.deployment:
            return Move(asked, BY_USER)
        return self.adapter.consider(self.record, self.ledger.attempt, status)

    def _move(self, move: Move) -> Attempt:
        """Save, stop, and let the next attempt run elsewhere."""
        self.context.add_event(
            "decision", f"Moving to {move.deployment}: {move.why}", deployment=move.deployment.key
        )
        attempt = self._stop(AttemptEnd.MOVED, f"moving to {move.deployment}")
        self.context.change(moved_to=move.deployment, move_asked=None, moved_by_user=move.why == BY_USER)
        return attempt

    def _replan(self, decision: Replan, status: TaskStatus) -> Attempt:
        """Save and stop; which machines the next attempt runs on is to be found."""
        self.context.add_event("decision", f"Looking for machines again: {decision.why}")
        attempt = self._stop(AttemptEnd.MOVED, REPLANNING)
        note_change(self.context, attempt, status, decision)
        return attempt

    def _report_downtime(self, attempt: Attempt) -> None:
        """Say once how long no step was made because of a move."""
        before = self.moved_from
        if before is None or attempt.first_step_at is None:
            return
        self.moved_from = None
        seconds = Run((before, attempt)).move_seconds
        parts = _move_parts(before, attempt)
        self.context.add_event(
            "decision", f"The move took {show_duration(seconds)} from step to step{parts}", seconds=seconds
        )

    def _report_more(self, status: TaskStatus) -> None:
        """Say once that the program goes on although all its work is done: nobody can tell for how long."""
        work = self.task.samples
        if self.reported_more or work <= 0 or status.progress.samples < MORE_THAN_WORK * work:
            return
        self.reported_more = True
        self.context.add_event(
            "decision",
            f"The program goes on after {self.task.samples_before + work:,.0f} samples, which is all the `work` of the job file; "
            "it is paid for until it ends or a limit is reached. Is `work` right?",
        )

    def _report_notes(self, status: TaskStatus) -> None:
        """Say what the cloud has noted, once each, whatever controllers died in between."""
        for number, note in enumerate(status.notes[self.reported_notes :], start=self.reported_notes):
            data = {"task": self.task_record.id, "note": number}
            told = redact(note, self.context.secrets)
            self.context.store.add_event_once(self.context.job_id, self.context.now(), "warning", told, data)
        self.reported_notes = len(status.notes)

    def _report_unseen_target(self, status: TaskStatus) -> None:
        """Say once that the metric which is to end the training is not reported, perhaps by this name."""
        if self.reported_unseen or not (told := unseen_target(self.task, status)):
            return
        self.reported_unseen = True
        words, data = redact(told, self.context.secrets), {"until": self.task_record.job_id}
        self.context.store.add_event_once(self.context.job_id, self.context.now(), "warning", words, data)

    def _report_less(self, status: TaskStatus) -> str:
        """Say where the program ended by itself long before its work was done and no target was to be reached."""
        work, done = (
            self.task.samples_before + self.task.samples,
            self.task.samples_before + status.progress.samples,
        )
        if self.task.samples > 0 and self.task.until is None and done < LESS_THAN_WORK * work:
            self.context.add_event(
                "warning",
                f"The program ended by itself after {done:,.0f} of {work:,.0f} samples. Is `work` right, and does every rank report "
                "what it did itself?",
            )
            return f"the program ended by itself after {done:,.0f} of {work:,.0f} samples"
        return ""

    def _spent(self, status: TaskStatus) -> Ledger:
        """Time and money so far, charges that are not recorded yet included."""
        spent = self.context.spent(self.record)
        return Ledger(spent.seconds, spent.usd - self.ledger.attempt.usd + status.usd)

    def _stop(self, end: AttemptEnd, why: str) -> Attempt:
        status = end_task(self.context, self.handle, self.task.grace_seconds)
        return self._close(status, end, why)

    def _end(self, status: TaskStatus) -> Attempt:
        """Record how it ended by itself, or by the cloud's doing."""
        if status.state is TaskState.SUCCEEDED or target_reached(self.task, status):
            less = self._report_less(status)
            return self._close(status, AttemptEnd.FINISHED, status.reason or less)
        if status.state is TaskState.LOST:
            return self._close(status, AttemptEnd.LOST, status.reason or "the machine is gone")
        if status.state is TaskState.FAILED and status.reason.startswith(NO_CAPACITY):
            return self._close(status, AttemptEnd.LOST, status.reason)
        if status.refused is not None:
            return self._end_of_refused(status)
        if self._failed_at_exit(status):
            return self._close(status, AttemptEnd.FINISHED, self._report_failed_exit(status))
        if status.state is TaskState.FAILED:
            code = "" if status.exit_code is None else f"exit code {status.exit_code}"
            self.back = fall_back(
                self.context, self.task.id, status
            )  # first: a controller that dies here does it again
            return self._close(status, AttemptEnd.FAILED, status.reason or code)
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

    def _report_failed_exit(self, status: TaskStatus) -> str:
        why = f"all the work is done, then the program failed: {status.reason or f'exit code {status.exit_code}'}"
        made = outputs_of(self.context, self.task_record.id)
        kept = "what it had handed back by then" if made else "its newest checkpoint"
        place = checkpoint_folder(self.context.folder)
        self.context.add_event(
            "warning",
            f"All {carried_samples(self.context.folder):,.0f} samples are trained and in a checkpoint, but the program then "
            f"failed. Nothing is trained again; the model is {kept}. Checkpoints are in {place}",
        )
        return why

    def _end_of_refused(self, status: TaskStatus) -> Attempt:
        """The cloud could not start it: it is tried again, unless something has to be changed first."""
        attempt = self._close(status, AttemptEnd.LOST, status.reason)
        if status.refused is Refusal.USER:
            raise UserError(status.reason, status.hint)
        return attempt

    def _end_of_stopped(self, status: TaskStatus) -> Attempt:
        """The cloud stopped it: at the time limit that it keeps by itself, or because someone asked it to.

        That limit is as old as the attempt: where the user has raised his since, the next attempt goes on.
        """
        attempt = self._close(status, AttemptEnd.STOPPED, status.reason)
        if "time limit" not in status.reason or self.record.stop_asked:
            raise StopAskedError
        twice = 2.0 * stop_seconds(self.context, self.record)
        decision = check_limit(self.record, attempt.deployment, self._spent(status), twice)
        if isinstance(decision, Halt):
            raise limit_error(self.context, self.record, decision)
        return attempt

    def _close(self, status: TaskStatus, end: AttemptEnd, why: str) -> Attempt:
        attempt = self.ledger.update(self.record, status, at_last=True)
        ended_at = attempt.ended_at or self.context.now()
        return self.ledger.close(replace(attempt, end=end, why=why, ended_at=ended_at))


def _goes_on(job: Job) -> str:
    return "" if job.on_nan is OnNan.STOP else "; it goes on (on_nan: warn)"


def _fails_alike(run: Run) -> bool:
    """Whether the last two attempts failed after the very same samples: a third would, too."""
    last = [attempt for attempt in run.attempts[-2:] if attempt.end is AttemptEnd.FAILED]
    if len(last) < 2 or last[0].why != last[1].why:
        return False
    return last[0].samples > 0 and (last[0].samples_before, last[0].samples) == (
        last[1].samples_before,
        last[1].samples,
    )


def _move_parts(before: Attempt, after: Attempt) -> str:
    """Where the time of a move went."""
    if before.last_step_at is None or before.ended_at is None or after.first_step_at is None:
        return ""
    saving, starting = before.ended_at - before.last_step_at, after.first_step_at - before.ended_at
    return f": {show_duration(saving)} to save and stop, {show_duration(starting)} to start"
