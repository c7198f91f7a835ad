"""The training: launched, followed, moved, restarted after failures and losses, halted before a limit."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from mlcd.adapt.base import Keep, Move
from mlcd.adapt.changes import Reoptimise
from mlcd.adapt.limits import Halt, allowed_seconds
from mlcd.core.job import Job, OnNan
from mlcd.core.records import JobRecord, TaskRecord
from mlcd.core.run import LOOKING_AGAIN, Attempt, AttemptEnd, Run
from mlcd.core.study import Ledger
from mlcd.core.task import Handle, Refusal, Task, TaskKind, TaskState, TaskStatus
from mlcd.core.units import show_duration
from mlcd.engine.adapter import Adapter
from mlcd.engine.adopt_probe import adopt_finished_probe
from mlcd.engine.context import Desk, goal_of
from mlcd.engine.deliver import hand_over, handed_back, owes_outputs
from mlcd.engine.fallback import Back, go_back
from mlcd.engine.hang_detection import SignsOfLife, is_hung, no_step_seconds
from mlcd.engine.ledger import Books, lately
from mlcd.engine.limits import (
    held_for_stopping,
    limit_error,
    limit_verdict,
    rental_verdict,
    rest_seconds,
    samples_left,
    stop_seconds,
    to_first_step,
)
from mlcd.engine.missing_modules import refuse_missing_module
from mlcd.engine.models import keep_model, most_samples
from mlcd.engine.nan_loss import nan_loss, only_checkpoints_before, samples_before_nan, stopped_at_nan
from mlcd.engine.probe_result import NO_CAPACITY, NOT_SHARED, SHARE_HINT, is_warm, trains_alone
from mlcd.engine.replan import look_again, note_change
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

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.ended_at = 0.0  # when the last stretch ended, on the cloud's clock

    def run(self) -> str:
        """Train until the work is done; gives the model's folder."""
        adopt_finished_probe(self.desk, self.desk.record)
        while (done := self._finished()) is None:
            if self.desk.record.looking_again:
                look_again(self.desk)
                adopt_finished_probe(self.desk, self.desk.record)
                continue
            record = self.desk.record
            task = self._open_task() or self._begin(record)
            stretch = Stretch(self.desk, record, task)
            attempt = stretch.follow()
            if attempt.end is not AttemptEnd.FINISHED:
                self._refuse_too_many(record, attempt, stretch.back)
            if attempt.end is AttemptEnd.LOST:
                self._reconsider(self.desk.record, attempt)
        self.ended_at = done.ended_at or self.desk.now()
        keep_model(self.desk, self.desk.record)
        return hand_over(self.desk, done.task_id)

    def _finished(self) -> Attempt | None:
        """The stretch that did the work; what a controller before us finished is not trained again."""
        attempts = self.desk.store.attempts(self.desk.job_id)
        finished = (attempt for attempt in attempts if attempt.end is AttemptEnd.FINISHED)
        return None if self._open_task() else next(finished, None)

    def _open_task(self) -> TaskRecord | None:
        tasks = self.desk.store.tasks(self.desk.job_id, open_only=True)
        return next((task for task in tasks if task.kind is TaskKind.TRAINING), None)

    def _begin(self, record: JobRecord) -> TaskRecord:
        """Intend the next stretch, unless the user wants to stop or a limit would be reached before its first step."""
        if record.stop_asked:
            raise StopAskedError
        needed, spent = rest_seconds(self.desk, record), self.desk.spent(record)
        held = held_for_stopping(self.desk, record, record.deployment, spent, needed)
        verdict = rental_verdict(record, record.deployment, spent, held + to_first_step(self.desk, record))
        if isinstance(verdict, Halt):
            raise limit_error(self.desk, record, verdict)
        return self.desk.intend(TaskKind.TRAINING, record.deployment)

    def _refuse_too_many(self, record: JobRecord, attempt: Attempt, back: Back) -> None:
        """Restart from the newest checkpoint, with separate counters for failures and losses."""
        run = Run(self.desk.store.attempts(self.desk.job_id))
        settings = record.job.checkpoint
        if run.count(AttemptEnd.LOST) > settings.max_losses:
            raise CloudError(
                f"The training was lost {run.count(AttemptEnd.LOST)} times; the last: {attempt.why}.",
                f"`mlcd resume {record.id}` tries again from the newest checkpoint.",
            )
        if attempt.end is AttemptEnd.FAILED and attempt.samples == 0:
            refuse_missing_module(self._log_tail(attempt), attempt.deployment.offer.cloud)
        if back is Back.NONE_LEFT:
            raise TaskFailedError(
                f"The program fails before its first step from each of its checkpoints; the last: {attempt.why}.",
                f"Fix the program, then `mlcd resume {record.id}` goes on from the newest checkpoint. To begin anew instead, "
                f"move {checkpoint_folder(self.desk.folder)} away first.",
                self._log_tail(attempt),
            )
        if back is Back.WENT:
            return  # it was the checkpoint: the one before is tried, however often the program has failed
        if run.count(AttemptEnd.FAILED) > settings.max_failures or _fails_alike(run):
            place = "the newest checkpoint" if carried_samples(self.desk.folder) > 0 else "the beginning"
            raise TaskFailedError(
                f"The training failed {run.count(AttemptEnd.FAILED)} times; the last: {attempt.why}.",
                f"Fix the program, then `mlcd resume {record.id}` goes on from {place}.",
                self._log_tail(attempt),
            )

    def _log_tail(self, attempt: Attempt) -> str:
        handle = self.desk.store.task(attempt.task_id).handle or ""
        return redact(self.desk.cloud.status(handle).log_tail, self.desk.secrets)

    def _reconsider(self, record: JobRecord, attempt: Attempt) -> None:
        """After a loss: go on elsewhere where the deadline asks for it, or where there are no machines to be had."""
        sold_out = attempt.why.startswith(NO_CAPACITY)
        course = Adapter(self.desk, record).after_loss(record, attempt, sold_out)
        if isinstance(course, Move):
            told = f"Going on with {course.deployment}: {course.why}"
            self.desk.say("decision", told, deployment=course.deployment.key)
            self.desk.change(moved_to=course.deployment)
        elif sold_out:
            self.desk.cloud.clock.sleep(SOLD_OUT_SECONDS)


class Stretch:
    """One unbroken stretch of the training, from its launch or where it was taken over."""

    def __init__(self, desk: Desk, record: JobRecord, task_record: TaskRecord) -> None:
        self.desk = desk
        self.record = record
        self.task_record = task_record
        self.task = self._task()
        self.books = Books(desk, self._attempt())
        self.adapter = Adapter(desk, record)
        self.handle: Handle = ""
        self.moved_from = self._moved_from()
        self.told_of_more = False
        self.told_of_unseen = False
        self.back = Back.STAYED
        self.told_notes = 0
        self.told_of_nan = ""
        self.signs = SignsOfLife(desk.now())

    def follow(self) -> Attempt:
        """Watch it until it has ended and is booked."""
        try:
            self.handle = self.desk.launch(self.task_record, self.task)
        except NoCapacityError as error:
            why = f"{NO_CAPACITY}: {error.message}"
            return self._close(TaskStatus(TaskState.FAILED, reason=why), AttemptEnd.LOST, why)
        while True:
            status = self.desk.status(self.handle)
            self._tell_downtime(self.books.book(self.record, status))
            self._tell_of_more(status)
            self._tell_notes(status)
            self._tell_of_unseen_target(status)
            self._heed_nan(status)
            if status.state.ended:
                return self._end(status)
            if (ended := self._decide(status)) is not None:
                return ended
            self.desk.cloud.clock.sleep(self.desk.cloud.poll_seconds)
            self.record = self.desk.record

    def _task(self) -> Task:
        """From the newest complete checkpoint, with the limits for the cloud to keep by itself."""
        deployment, record = self.task_record.deployment, self.record
        needed, spent = rest_seconds(self.desk, record), self.desk.spent(record)
        held = held_for_stopping(self.desk, record, deployment, spent, needed)
        allowed = allowed_seconds(goal_of(record), spent, deployment, held)
        samples = most_samples(self.desk, record, deployment)
        before = self._known.samples_before if self._known else carried_samples(self.desk.folder)
        task = training_task(
            record.job, self.task_record, self.desk.folder, samples, before, max(1.0, allowed)
        )
        shorter = stop_seconds(self.desk, record) - held
        return replace(task, grace_seconds=max(0.0, task.grace_seconds - shorter))

    @cached_property
    def _known(self) -> Attempt | None:
        """The stretch as a controller before us has begun it."""
        attempts = self.desk.store.attempts(self.desk.job_id)
        return next((attempt for attempt in attempts if attempt.task_id == self.task_record.id), None)

    def _attempt(self) -> Attempt:
        """The stretch as it was begun, by us or by the controller before us."""
        task, before = self.task_record, self.task.samples_before
        if self._known is not None:
            return self._known
        attempt = Attempt(task.id, task.number, task.deployment, self.desk.now(), before)
        self.desk.store.put_attempt(self.desk.job_id, attempt)
        anew = " from the beginning: there is no checkpoint" if task.number > 1 else ""
        begin = f" from {before:,.0f} samples" if before > 0 else anew
        self.desk.say("attempt", f"Training on {attempt.deployment}{begin}", number=attempt.number)
        return attempt

    def _moved_from(self) -> Attempt | None:
        """The stretch before this one, if it ended by moving here."""
        before = [
            each
            for each in self.desk.store.attempts(self.desk.job_id)
            if each.number < self.task_record.number
        ]
        moved = before and before[-1].end is AttemptEnd.MOVED and before[-1].why != LOOKING_AGAIN
        return before[-1] if moved else None

    def _decide(self, status: TaskStatus) -> Attempt | None:
        """End the stretch where the user, the target, a limit, silence or a better place demands it."""
        if self.record.stop_asked:
            self._stop(AttemptEnd.STOPPED, "stopped by the user")
            raise StopAskedError
        if target_reached(self.task, status):
            return self._stop(AttemptEnd.FINISHED, f"{self.record.job.work.until.metric} reached its target")  # type: ignore[union-attr]  # a target is what was reached
        verdict = limit_verdict(
            self.record, self.task_record.deployment, self._spent(status), self._held(status)
        )
        if isinstance(verdict, Halt):
            self._stop(AttemptEnd.STOPPED, verdict.why)
            raise limit_error(self.desk, self.record, verdict)
        if trains_alone(status, is_warm(status, self.record.job.probe)):
            self._stop(AttemptEnd.FAILED, NOT_SHARED)
            raise TaskFailedError(f"On {self.task_record.deployment} {NOT_SHARED}.", SHARE_HINT)
        if self._is_hung(status):
            return self._stop_hung(status)
        course = self._course(status)
        if isinstance(course, Reoptimise):
            return self._look_again(course, status)
        return self._move(course) if isinstance(course, Move) else None

    def _heed_nan(self, status: TaskStatus) -> None:
        """Tell of a loss that is nan or infinite, and stop there where the job asks for it."""
        lost = nan_loss(status.progress, self.task.until)
        if lost is None:
            return
        since = samples_before_nan(status.progress, lost, self.task.samples_before)
        told = f"{lost.name} is {lost.value:g} since about {since:,.0f} samples"
        data = {"metric": lost.name, "nan": self.task_record.id}
        if self.told_of_nan != lost.name:
            self.told_of_nan = lost.name
            words = redact(f"{told}{_goes_on(self.record.job)}", self.desk.secrets)
            self.desk.store.add_event_once(self.desk.job_id, self.desk.now(), "warning", words, data)
        if self.record.job.on_nan is OnNan.STOP:
            self._stop_at_nan(since, told)

    def _stop_at_nan(self, since: float, told: str) -> None:
        """Nobody goes on from a state that is saved after it; the newest from before stays."""
        with only_checkpoints_before(checkpoint_folder(self.desk.folder), since):
            status = end_task(self.desk, self.handle, self.task.grace_seconds)
        self._close(status, AttemptEnd.STOPPED, told)
        tail = redact(status.log_tail, self.desk.secrets)
        raise stopped_at_nan(self.record.id, self.desk.folder, told, tail)

    def _is_hung(self, status: TaskStatus) -> bool:
        now, limit = self.desk.now(), self.books.hang_limit(self.record)
        return is_hung(self.task, status, now, self.signs.silent_seconds(status, now), limit)

    def _stop_hung(self, status: TaskStatus) -> Attempt:
        """End it as failed; the next attempt is given longer, in case it was only slow."""
        pause = no_step_seconds(status, self.desk.now())
        longest = max(pause, self.books.attempt.longest_pause_seconds)
        self.books.attempt = replace(self.books.attempt, longest_pause_seconds=longest)
        self.desk.say("decision", f"No step for {show_duration(pause)}: starting again")
        return self._stop(AttemptEnd.FAILED, HUNG)

    def _held(self, status: TaskStatus) -> float:
        """What is held back for stopping: no less than what the cloud was told when it was launched."""
        if not goal_of(self.record).limited:
            return 0.0
        least = self.task.grace_seconds + 2.0 * self.desk.cloud.poll_seconds
        done, seen = self.task.samples_before + status.progress.samples, lately(status)
        left = samples_left(self.desk, self.record, done)
        needed = rest_seconds(self.desk, self.record) if seen is None else left / seen.samples_per_second
        where, spent = self.task_record.deployment, self._spent(status)
        return held_for_stopping(self.desk, self.record, where, spent, needed, least)

    def _course(self, status: TaskStatus) -> Keep | Move | Reoptimise:
        """Where the user wants the training to go on, or else the policies."""
        asked = self.record.move_asked
        if asked is not None and asked != self.task_record.deployment:
            return Move(asked, BY_USER)
        return self.adapter.consider(self.record, self.books.attempt, status)

    def _move(self, move: Move) -> Attempt:
        """Save, stop, and let the next stretch run elsewhere."""
        self.desk.say("decision", f"Moving to {move.deployment}: {move.why}", deployment=move.deployment.key)
        attempt = self._stop(AttemptEnd.MOVED, f"moving to {move.deployment}")
        self.desk.change(moved_to=move.deployment, move_asked=None, moved_by_user=move.why == BY_USER)
        return attempt

    def _look_again(self, verdict: Reoptimise, status: TaskStatus) -> Attempt:
        """Save and stop; which machines the next stretch runs on is to be found."""
        self.desk.say("decision", f"Looking for machines again: {verdict.why}")
        attempt = self._stop(AttemptEnd.MOVED, LOOKING_AGAIN)
        note_change(self.desk, attempt, status, verdict)
        return attempt

    def _tell_downtime(self, attempt: Attempt) -> None:
        """Say once how long no step was made because of a move."""
        before = self.moved_from
        if before is None or attempt.first_step_at is None:
            return
        self.moved_from = None
        seconds = Run((before, attempt)).move_seconds
        parts = _move_parts(before, attempt)
        self.desk.say(
            "decision", f"The move took {show_duration(seconds)} from step to step{parts}", seconds=seconds
        )

    def _tell_of_more(self, status: TaskStatus) -> None:
        """Say once that the program goes on although all its work is done: nobody can tell for how long."""
        work = self.task.samples
        if self.told_of_more or work <= 0 or status.progress.samples < MORE_THAN_WORK * work:
            return
        self.told_of_more = True
        self.desk.say(
            "decision",
            f"The program goes on after {self.task.samples_before + work:,.0f} samples, which is all the `work` of the job file; "
            "it is paid for until it ends or a limit is reached. Is `work` right?",
        )

    def _tell_notes(self, status: TaskStatus) -> None:
        """Say what the cloud has noted, once each, whatever controllers died in between."""
        for number, note in enumerate(status.notes[self.told_notes :], start=self.told_notes):
            data = {"task": self.task_record.id, "note": number}
            told = redact(note, self.desk.secrets)
            self.desk.store.add_event_once(self.desk.job_id, self.desk.now(), "warning", told, data)
        self.told_notes = len(status.notes)

    def _tell_of_unseen_target(self, status: TaskStatus) -> None:
        """Say once that the metric which is to end the training is not reported, perhaps by this name."""
        if self.told_of_unseen or not (told := unseen_target(self.task, status)):
            return
        self.told_of_unseen = True
        words, data = redact(told, self.desk.secrets), {"until": self.task_record.job_id}
        self.desk.store.add_event_once(self.desk.job_id, self.desk.now(), "warning", words, data)

    def _tell_of_less(self, status: TaskStatus) -> str:
        """Say where the program ended by itself long before its work was done and no target was to be reached."""
        work, done = (
            self.task.samples_before + self.task.samples,
            self.task.samples_before + status.progress.samples,
        )
        if self.task.samples > 0 and self.task.until is None and done < LESS_THAN_WORK * work:
            self.desk.say(
                "warning",
                f"The program ended by itself after {done:,.0f} of {work:,.0f} samples. Is `work` right, and does every rank report "
                "what it did itself?",
            )
            return f"the program ended by itself after {done:,.0f} of {work:,.0f} samples"
        return ""

    def _spent(self, status: TaskStatus) -> Ledger:
        """Time and money so far, charges that are not booked yet included."""
        spent = self.desk.spent(self.record)
        return Ledger(spent.seconds, spent.usd - self.books.attempt.usd + status.usd)

    def _stop(self, end: AttemptEnd, why: str) -> Attempt:
        status = end_task(self.desk, self.handle, self.task.grace_seconds)
        return self._close(status, end, why)

    def _end(self, status: TaskStatus) -> Attempt:
        """Book how it ended by itself, or by the cloud's doing."""
        if status.state is TaskState.SUCCEEDED or target_reached(self.task, status):
            less = self._tell_of_less(status)
            return self._close(status, AttemptEnd.FINISHED, status.reason or less)
        if status.state is TaskState.LOST:
            return self._close(status, AttemptEnd.LOST, status.reason or "the machine is gone")
        if status.state is TaskState.FAILED and status.reason.startswith(NO_CAPACITY):
            return self._close(status, AttemptEnd.LOST, status.reason)
        if status.refused is not None:
            return self._end_of_refused(status)
        if self._failed_at_exit(status):
            return self._close(status, AttemptEnd.FINISHED, self._tell_of_failed_exit(status))
        if status.state is TaskState.FAILED:
            code = "" if status.exit_code is None else f"exit code {status.exit_code}"
            self.back = go_back(
                self.desk, self.task.id, status
            )  # first: a controller that dies here does it again
            return self._close(status, AttemptEnd.FAILED, status.reason or code)
        return self._end_of_stopped(status)

    def _failed_at_exit(self, status: TaskStatus) -> bool:
        """Whether all the work is in a committed checkpoint and only the program's end failed: nothing is trained again.

        Outputs that the job names and that are not there, or are cut off, are worth one more start, which makes no step.
        """
        if status.state is not TaskState.FAILED or not status.exit_code:
            return False  # without a code of its own: its results did not come home, or it never ran
        trained = carried_samples(self.desk.folder) - self.task.samples_before
        owes = owes_outputs(self.desk, self.task_record.id, self.record.job.outputs)
        done = 0.0 < self.task.samples <= trained and not owes
        return done or (self.task.all_trained and trained >= 0.0)

    def _tell_of_failed_exit(self, status: TaskStatus) -> str:
        why = f"all the work is done, then the program failed: {status.reason or f'exit code {status.exit_code}'}"
        made = handed_back(self.desk, self.task_record.id)
        kept = "what it had handed back by then" if made else "its newest checkpoint"
        place = checkpoint_folder(self.desk.folder)
        self.desk.say(
            "warning",
            f"All {carried_samples(self.desk.folder):,.0f} samples are trained and in a checkpoint, but the program then "
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

        That limit is as old as the stretch: where the user has raised his since, the next stretch goes on.
        """
        attempt = self._close(status, AttemptEnd.STOPPED, status.reason)
        if "time limit" not in status.reason or self.record.stop_asked:
            raise StopAskedError
        twice = 2.0 * stop_seconds(self.desk, self.record)
        verdict = limit_verdict(self.record, attempt.deployment, self._spent(status), twice)
        if isinstance(verdict, Halt):
            raise limit_error(self.desk, self.record, verdict)
        return attempt

    def _close(self, status: TaskStatus, end: AttemptEnd, why: str) -> Attempt:
        attempt = self.books.book(self.record, status, at_last=True)
        ended_at = attempt.ended_at or self.desk.now()
        return self.books.close(replace(attempt, end=end, why=why, ended_at=ended_at))


def _goes_on(job: Job) -> str:
    return "" if job.on_nan is OnNan.STOP else "; it goes on (on_nan: warn)"


def _fails_alike(run: Run) -> bool:
    """Whether the last two stretches failed after the very same samples: a third would, too."""
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
