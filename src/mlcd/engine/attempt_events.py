"""The events of an attempt, while it runs and when it ends: each once."""

from __future__ import annotations

from mlcd.core.run import Attempt, Run
from mlcd.core.task import EndCause, Task, TaskStatus
from mlcd.core.units import show_duration
from mlcd.engine.context import JobContext
from mlcd.engine.deliver import outputs_of
from mlcd.engine.targets import unseen_target
from mlcd.engine.tasks import carried_samples, checkpoint_folder

MORE_THAN_WORK = 1.1
LESS_THAN_WORK = 0.9


class AttemptEvents:
    """The events of one attempt. What must come once however often controllers die is kept so by the store."""

    def __init__(self, context: JobContext, task: Task) -> None:
        self._context = context
        self._task = task
        self._reported: set[str] = set()
        self._notes = 0

    def report(self, attempt: Attempt, status: TaskStatus) -> None:
        """Say what is new."""
        self._report_downtime(attempt)
        self._report_more(status)
        self._report_notes(status)
        self._report_unseen_target(status)

    def report_nan(self, metric: str, message: str) -> None:
        """Say that a loss is nan or infinite."""
        if self._is_new(f"nan {metric}"):
            data = {"metric": metric, "nan": self._task.id}
            self._context.add_event_once("warning", message, data)

    def report_less(self, status: TaskStatus) -> str:
        """Say where the program ended by itself long before its work was done and no target was to be reached."""
        before, task = self._task.samples_before, self._task
        work, done = before + task.samples, before + status.progress.samples
        if task.samples <= 0 or task.until is not None or done >= LESS_THAN_WORK * work:
            return ""
        what = f"program ended by itself after {done:,.0f} of {work:,.0f} samples"
        hint = "Is `work` right, and does every rank report what it did itself?"
        self._context.add_event("warning", f"The {what}. {hint}")
        return f"the {what}"

    def report_failed_exit(self, status: TaskStatus) -> str:
        """Say that all is trained although the program failed at its end; gives why the attempt ended."""
        made = outputs_of(self._context, self._task.id)
        kept = "what it had handed back by then" if made else "its newest checkpoint"
        folder = self._context.folder
        self._context.add_event(
            "warning",
            f"All {carried_samples(folder):,.0f} samples are trained and in a checkpoint, but the program then "
            f"failed. Nothing is trained again; the model is {kept}. Checkpoints are in {checkpoint_folder(folder)}",
        )
        return f"all the work is done, then the program failed: {status.reason or f'exit code {status.exit_code}'}"

    def _report_downtime(self, attempt: Attempt) -> None:
        """Say how long no step was made because of a move."""
        if attempt.first_step_at is None or not self._is_new("downtime"):
            return
        earlier = [each for each in self._context.store.attempts(self._context.job_id) if each.number < attempt.number]
        if not earlier or earlier[-1].cause is not EndCause.MOVE:
            return
        seconds = Run((earlier[-1], attempt)).move_seconds
        message = f"The move took {show_duration(seconds)} from step to step{_move_parts(earlier[-1], attempt)}"
        self._context.add_event("decision", message, seconds=seconds)

    def _report_more(self, status: TaskStatus) -> None:
        """Say that the program goes on although all its work is done: nobody can tell for how long."""
        work = self._task.samples
        if work <= 0 or status.progress.samples < MORE_THAN_WORK * work or not self._is_new("more"):
            return
        self._context.add_event(
            "decision",
            f"The program goes on after {self._task.samples_before + work:,.0f} samples, which is all the `work` of the job "
            "file; it is paid for until it ends or a limit is reached. Is `work` right?",
        )

    def _report_notes(self, status: TaskStatus) -> None:
        """Say what the cloud has noted."""
        for number, note in enumerate(status.notes[self._notes :], start=self._notes):
            self._context.add_event_once("warning", note, {"task": self._task.id, "note": number})
        self._notes = len(status.notes)

    def _report_unseen_target(self, status: TaskStatus) -> None:
        """Say that the metric which is to end the training is not reported, perhaps by this name."""
        if (message := unseen_target(self._task, status)) and self._is_new("unseen target"):
            self._context.add_event_once("warning", message, {"until": self._task.job_id})

    def _is_new(self, what: str) -> bool:
        new = what not in self._reported
        self._reported.add(what)
        return new


def _move_parts(before: Attempt, after: Attempt) -> str:
    """Where the time of a move went."""
    if before.last_step_at is None or before.ended_at is None or after.first_step_at is None:
        return ""
    saving, starting = before.ended_at - before.last_step_at, after.first_step_at - before.ended_at
    return f": {show_duration(saving)} to save and stop, {show_duration(starting)} to start"
