"""The training: one attempt after the other until the work is done, too much has failed, or a limit is near."""

from __future__ import annotations

from dataclasses import replace

from mlcd.adapt.base import Move
from mlcd.adapt.limits import Halt
from mlcd.core.records import JobRecord, TaskRecord
from mlcd.core.run import Attempt, AttemptEnd, Run
from mlcd.core.task import EndCause, TaskKind
from mlcd.engine.adapter import Adapter
from mlcd.engine.adopt_probe import adopt_finished_probe
from mlcd.engine.attempt import AttemptRunner
from mlcd.engine.context import JobContext
from mlcd.engine.deliver import deliver
from mlcd.engine.fallback import Fallback
from mlcd.engine.limits import check_rental, held_for_stopping, limit_error, rest_seconds, to_first_step
from mlcd.engine.missing_modules import refuse_missing_module
from mlcd.engine.models import keep_model
from mlcd.engine.replan import replan
from mlcd.engine.secrets import redact
from mlcd.engine.stop import StopAskedError
from mlcd.engine.tasks import carried_samples, checkpoint_folder
from mlcd.errors import CloudError, TaskFailedError

SOLD_OUT_SECONDS = 60.0  # before machines that could not be had are asked for again


class Training:
    """The training of one job; a new controller makes it anew from the store and goes on where it is."""

    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.ended_at = 0.0  # when the last attempt ended, on the cloud's clock

    def run(self) -> str:
        """Train until the work is done; gives the model's folder."""
        adopt_finished_probe(self.context, self.context.load_record())
        while (done := self._finished()) is None:
            if self.context.load_record().replanning:
                replan(self.context)
                adopt_finished_probe(self.context, self.context.load_record())
            else:
                self._attempt(self.context.load_record())
        self.ended_at = done.ended_at or self.context.now()
        keep_model(self.context, self.context.load_record())
        return deliver(self.context, done.task_id)

    def _attempt(self, record: JobRecord) -> None:
        """Begin an attempt, or take over the one that runs, and see how it ends."""
        runner = AttemptRunner(self.context, record, self._open_task() or self._begin(record))
        attempt = runner.follow()
        if self._lacked_memory(attempt):
            return
        if attempt.end is not AttemptEnd.FINISHED:
            self._refuse_too_many(record, attempt, runner.fallback)
        if attempt.end is AttemptEnd.LOST:
            self._reconsider(self.context.load_record(), attempt)

    def _lacked_memory(self, attempt: Attempt) -> bool:
        """Whether it ran out of memory that had been cut to its batch: then the next attempt gets all that there is."""
        cut = attempt.deployment
        if attempt.cause is not EndCause.OUT_OF_MEMORY or not cut.is_cut:
            return False
        whole = replace(cut, memory_gib=0.0)
        message = (
            f"The training needs more than the {cut.node_memory_gib:g} GiB that its probe needed: it goes on with all "
            f"{whole.node_memory_gib:g} GiB of each machine"
        )
        self.context.add_event("decision", message, deployment=whole.key)
        self.context.change(moved_to=whole)
        return True

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

    def _refuse_too_many(self, record: JobRecord, attempt: Attempt, fallback: Fallback) -> None:
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
        if fallback is Fallback.NONE_LEFT:
            raise TaskFailedError(
                f"The program fails before its first step from each of its checkpoints; the last: {attempt.why}.",
                f"Fix the program, then `mlcd resume {record.id}` goes on from the newest checkpoint. To begin anew instead, "
                f"move {checkpoint_folder(self.context.folder)} away first.",
                self._log_tail(attempt),
            )
        if fallback is Fallback.TAKEN:
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
        sold_out = attempt.cause is EndCause.NO_CAPACITY
        course = Adapter(self.context, record).after_loss(record, attempt, sold_out)
        if isinstance(course, Move):
            message = f"Going on with {course.deployment}: {course.why}"
            data = {"deployment": course.deployment.key, "cause": course.cause.value}
            self.context.add_event("decision", message, **data)
            self.context.change(moved_to=course.deployment)
        elif sold_out:
            self.context.cloud.clock.sleep(SOLD_OUT_SECONDS)


def _fails_alike(run: Run) -> bool:
    """Whether the last two attempts failed alike after the very same samples: a third would, too."""
    last = [attempt for attempt in run.attempts[-2:] if attempt.end is AttemptEnd.FAILED]
    how = {(each.cause, each.exit_code, each.samples_before, each.samples) for each in last}
    return len(last) == 2 and len(how) == 1 and last[0].samples > 0
