"""A probe that did all the work was the training: nothing is started again just to hand over its model."""

from __future__ import annotations

from mlcd.core.job import OnNan
from mlcd.core.progress import MetricPoint
from mlcd.core.records import JobRecord, TaskRecord
from mlcd.core.run import Attempt, AttemptEnd
from mlcd.core.task import EndCause, TaskKind, TaskState, TaskStatus
from mlcd.engine.context import JobContext, work_of
from mlcd.engine.nan_loss import nan_loss, only_checkpoints_before, samples_before_nan, stopped_at_nan
from mlcd.engine.secrets import redact
from mlcd.engine.tasks import carried_samples, checkpoint_folder


def finished_probe(context: JobContext, record: JobRecord) -> TaskRecord | None:
    """The newest probe, if it ended by itself with all the work done."""
    probes = [task for task in context.store.tasks(context.job_id) if task.kind is TaskKind.PROBE]
    if not probes or probes[-1].handle is None or probes[-1].ended_at is None:
        return None
    status = context.cloud.status(probes[-1].handle)
    well = status.state is TaskState.SUCCEEDED
    return probes[-1] if well and _work_is_done(context, record, status) else None


def adopt_finished_probe(context: JobContext, record: JobRecord) -> None:
    """Write it down as the training, which then is over; what it cost is on the bill as a probe."""
    before, task = context.store.attempts(context.job_id), finished_probe(context, record)
    if task is None or task.ended_at is None or (before and before[-1].started_at > task.intended_at):
        return
    status = context.cloud.status(task.handle or "")
    progress = status.progress
    lost = nan_loss(progress, work_of(record.job).until)
    stops = lost is not None and record.job.on_nan is OnNan.STOP
    done = max(carried_samples(context.folder), progress.samples)
    attempt = _as_attempt(task, len(before) + 1, done, lost, stops)
    context.store.add_points(context.job_id, task.id, progress.points, progress.metrics)
    told = "" if lost is None else f"{lost.name} is {lost.value:g} at the end of the work"
    if stops and lost is not None:
        # First: whoever goes on after a kill must not find them. Where the probe itself began is not kept: counted from
        # zero, no state from after the nan is ever trusted.
        since = samples_before_nan(progress, lost, samples_before=0.0)
        with only_checkpoints_before(checkpoint_folder(context.folder), since):
            pass
    context.store.put_attempt(context.job_id, attempt)
    if told:
        context.add_event("warning", told)
    if stops:
        raise stopped_at_nan(record.id, context.folder, told, redact(status.log_tail, context.secrets))
    context.add_event("attempt", f"Nothing is left to train: {attempt.why}", number=attempt.number)


def _as_attempt(task: TaskRecord, number: int, samples: float, lost: MetricPoint | None, stops: bool) -> Attempt:
    """It begins and ends when the probe has ended: the probe's time and cost are its own."""
    ended_at = task.ended_at or 0.0
    return Attempt(
        task.id,
        number,
        task.deployment,
        started_at=ended_at,
        samples_before=samples,
        end=AttemptEnd.STOPPED if stops else AttemptEnd.FINISHED,
        why=f"probe {task.number} did all the work",
        cause=EndCause.NAN_LOSS if stops else EndCause.COMPLETED,
        ended_at=ended_at,
        nan_loss=lost.name if lost is not None else "",
    )


def _work_is_done(context: JobContext, record: JobRecord, status: TaskStatus) -> bool:
    work = work_of(record.job)
    if work.until is not None and work.until.reached_in(status.progress.metrics):
        return True
    return max(carried_samples(context.folder), status.progress.samples) >= work.samples > 0
