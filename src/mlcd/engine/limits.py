"""Halting at a limit: what was reached, and what going on would cost."""

from __future__ import annotations

from mlcd.adapt.limits import (
    LEAST_STOP_SECONDS,
    Halt,
    Keep,
    Limit,
    allowed_seconds,
    held_back,
    keep_or_halt,
    rent_or_halt,
)
from mlcd.core.machines import Deployment
from mlcd.core.records import JobRecord
from mlcd.core.run import Run
from mlcd.core.study import Ledger
from mlcd.core.units import show_duration, show_usd
from mlcd.engine.context import JobContext, goal_of
from mlcd.engine.models import most_samples
from mlcd.engine.study import learnt_start
from mlcd.engine.tasks import carried_samples
from mlcd.errors import BudgetExhaustedError, DeadlineMissedError, LimitReachedError


def check_limit(record: JobRecord, deployment: Deployment, spent: Ledger, held_seconds: float) -> Keep | Halt:
    """Whether there is room for more than what is held back for stopping."""
    return keep_or_halt(goal_of(record), spent, deployment, held_seconds)


def check_rental(record: JobRecord, deployment: Deployment, spent: Ledger, held_seconds: float) -> Keep | Halt:
    """The same before machines are rented."""
    return rent_or_halt(goal_of(record), spent, deployment, held_seconds)


def held_for_stopping(
    context: JobContext,
    record: JobRecord,
    deployment: Deployment,
    spent: Ledger,
    needed_seconds: float,
    least_seconds: float = LEAST_STOP_SECONDS,
) -> float:
    """What is held back before a limit, if the rest of the work needs that long; the way home always is."""
    room = allowed_seconds(goal_of(record), spent, deployment, 0.0)
    least = least_seconds + context.cloud.ending_seconds
    return held_back(room, needed_seconds, stop_seconds(context, record), least)


def stop_seconds(context: JobContext, record: JobRecord) -> float:
    """What stopping may take at the most: the grace, a look or two, and the way home."""
    cloud = context.cloud
    return record.job.checkpoint.grace_seconds + 2.0 * cloud.poll_seconds + cloud.ending_seconds


def limit_error(context: JobContext, record: JobRecord, halt: Halt) -> LimitReachedError:
    """What was reached, and what going on would take."""
    cost = _cost_to_finish(context, record)
    kept = "with a checkpoint" if carried_samples(context.folder) > 0 else "without a checkpoint: it left none"
    if halt.limit is Limit.BUDGET:
        return BudgetExhaustedError(
            f"Stopped before the budget was passed, {kept}: {halt.why}. {cost}",
            f"To go on: mlcd resume {record.id} --budget AMOUNT",
        )
    return DeadlineMissedError(
        f"Stopped {kept}: {halt.why}. {cost}",
        f"To go on: mlcd resume {record.id} --deadline TIME",
    )


def _cost_to_finish(context: JobContext, record: JobRecord) -> str:
    trained = Run(context.store.attempts(record.id)).samples
    if trained > 0 and samples_left(context, record, trained) == 0.0:
        return "All the work of the job file is done, and the program went on: how long it still takes is not known."
    seconds = rest_seconds(context, record)
    cost = f"about {show_usd(record.deployment.rental_usd(seconds))} and {show_duration(seconds)} more"
    return f"To finish takes {cost}."


def to_first_step(context: JobContext, record: JobRecord) -> float:
    """Seconds from launch to first step."""
    return learnt_start(record.start_seconds, context.store.trials(record.id), record.job.probe.warmup_seconds)


def rest_seconds(context: JobContext, record: JobRecord) -> float:
    """How long the samples that are in no checkpoint yet would still take, a new start included."""
    start = to_first_step(context, record)
    return start + samples_left(context, record, carried_samples(context.folder)) / _speed(context, record)


def samples_left(context: JobContext, record: JobRecord, done: float) -> float:
    """What is still to do; a target that was expected to be reached by now may take all that is allowed."""
    expected = record.samples(record.deployment)
    work = expected if done < expected else most_samples(context, record, record.deployment)
    return max(0.0, work - done)


def _speed(context: JobContext, record: JobRecord) -> float:
    """Samples a second on the present deployment: as it trained, as it was measured, or as the plan expects."""
    assert record.plan is not None
    deployment, plan = record.deployment, record.plan
    attempts = [
        attempt
        for attempt in context.store.attempts(context.job_id)
        if attempt.deployment == deployment and attempt.started_at >= record.changed_at
    ]
    trained = [attempt.samples_per_second for attempt in attempts if attempt.samples_per_second > 0]
    if trained:
        return trained[-1]
    measured = [trial.measurement for trial in context.store.trials(record.id) if trial.deployment == deployment]
    seen = [one.samples_per_second for one in measured if one is not None]
    return seen[-1] if seen else max(1.0, record.samples(deployment)) / plan.forecast.seconds
