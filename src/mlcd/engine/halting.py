"""Halting at a limit: what was reached, and what going on would cost."""

from __future__ import annotations

from mlcd.adapt.limits import Halt, Keep, Limit, keep_or_halt
from mlcd.core.machines import Deployment
from mlcd.core.records import JobRecord
from mlcd.core.study import Ledger
from mlcd.core.units import show_duration, show_usd
from mlcd.engine.desk import Desk, goal_of
from mlcd.engine.modelling import most_samples
from mlcd.engine.tasks import carried_samples
from mlcd.errors import BudgetExhaustedError, DeadlineMissedError, LimitReachedError


def limit_verdict(
    desk: Desk, record: JobRecord, deployment: Deployment, spent: Ledger, times: float = 1.0
) -> Keep | Halt:
    """Whether there is room for more than (so many times) what stopping takes."""
    return keep_or_halt(goal_of(record), spent, deployment, times * stop_seconds(desk, record))


def stop_seconds(desk: Desk, record: JobRecord) -> float:
    """What stopping may take at the most: the grace, and a look or two."""
    return record.job.checkpoint.grace_seconds + 2.0 * desk.cloud.poll_seconds


def limit_error(desk: Desk, record: JobRecord, halt: Halt) -> LimitReachedError:
    """What was reached, and what going on would take."""
    rest = _cost_of_the_rest(desk, record)
    cost = f"about {show_usd(rest.usd)} and {show_duration(rest.seconds)} more"
    kept = "with a checkpoint" if carried_samples(desk.folder) > 0 else "without a checkpoint: it left none"
    if halt.limit is Limit.BUDGET:
        return BudgetExhaustedError(
            f"Stopped before the budget was passed, {kept}: {halt.why}. To finish takes {cost}.",
            f"To go on: mlcd resume {record.id} --budget AMOUNT",
        )
    return DeadlineMissedError(
        f"Stopped {kept}: {halt.why}. To finish takes {cost}.",
        f"To go on: mlcd resume {record.id} --deadline TIME",
    )


def _cost_of_the_rest(desk: Desk, record: JobRecord) -> Ledger:
    """What the samples that are in no checkpoint yet would still take, at the speed seen so far."""
    assert record.plan is not None
    plan, deployment = record.plan, record.deployment
    done, work = carried_samples(desk.folder), record.samples(deployment)
    if done >= work:  # it was expected to be done by now
        work = most_samples(desk, record, deployment)
    attempts = [attempt for attempt in desk.store.attempts(desk.job_id) if attempt.deployment == deployment]
    trained, took = sum(a.samples for a in attempts), sum(a.seconds for a in attempts)
    speed = trained / took if trained > 0 else work / plan.forecast.seconds
    seconds = max(0.0, work - done) / speed
    return Ledger(seconds, deployment.usd(seconds))
