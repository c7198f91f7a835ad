"""Replanning while a job trains: the job has changed, and what was measured of it holds no more.

    the policy asks for it → the attempt ends with a checkpoint → the change is written down → a search as at the
    beginning, of which the present deployment is the first trial, for its speed is known → the next attempt

A controller that dies in between leaves the change in the store, and the next one goes on with the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlcd.adapt.base import Situation
from mlcd.adapt.changes import Lesson, Replan, reconsider
from mlcd.adapt.limits import Keep
from mlcd.adapt.phases import lost_to_search
from mlcd.core.conditions import Change, Conditions
from mlcd.core.machines import Deployment
from mlcd.core.records import JobRecord
from mlcd.core.run import Attempt
from mlcd.core.study import Ledger, Study
from mlcd.core.task import TaskStatus
from mlcd.core.trial import Measurement, Phases, Trial, of_search
from mlcd.core.units import show_duration, show_usd
from mlcd.engine.context import JobContext, goal_of
from mlcd.engine.search import open_search
from mlcd.errors import GoalUnreachableError
from mlcd.forecast.observed_conditions import Steady, steady_conditions
from mlcd.forecast.throughput import throughput_after


def worth_replanning(
    situation: Situation, record: JobRecord, before: Conditions, now: Conditions, study: Study
) -> Keep | Replan:
    """Whether the job has changed so much that the search is worth making again."""
    if not study.probes_left or len(study.space) < 2:
        return Keep()
    rest_seconds = situation.samples_left / situation.now.samples_per_second
    rest = situation.goal.value(rest_seconds, situation.deployment.usd(rest_seconds))
    cost = search_cost(study, situation.deployment, situation.move_seconds)
    lessons = [Lesson(change.factor, change.gain) for change in record.changes if change.gain is not None]
    return reconsider(before, now, rest, situation.goal.value(cost.seconds, cost.usd), lessons)


def search_cost(study: Study, deployment: Deployment, move_seconds: float) -> Ledger:
    """What a search costs, by those before it: probes without the training in them, and a move."""
    tried = (trial for trials in (study.trials, *study.earlier[:1]) for trial in trials)
    lost = lost_to_search(tried, carried=study.probe_training_share > 0)
    seconds, usd = lost.seconds or study.probe_seconds(deployment), lost.usd or study.probe_usd(deployment)
    return Ledger(seconds + move_seconds, usd + deployment.usd(move_seconds))


def record_change(context: JobContext, attempt: Attempt, status: TaskStatus, decision: Replan) -> None:
    """Write down that the job has changed, and what it runs at since; from now on it is replanned."""
    steady, record = steady_conditions(status.progress), context.load_record()
    if (trial := _as_trial(attempt, status, steady)) is not None:
        trial = replace(trial, search_number=record.search_number + 1, fixes=record.fixes)
        context.store.add_trial(context.job_id, trial)
    change = Change(context.now(), decision.change)
    context.change(changes=(*record.changes, change), conditions={})


def replan(context: JobContext) -> None:
    """Search, and let the training go on where that is best."""
    record = context.load_record()
    search, here = open_search(context), record.deployment
    try:
        plan = search.run()
        chosen, why = plan.deployment, plan.reason
    except GoalUnreachableError as error:
        chosen, why = here, error.message
    trials = of_search(context.store.trials(context.job_id), record.search_number)
    usd = sum(trial.usd for trial in trials)
    change = replace(record.changes[-1], gain=_gain(record, trials, here, chosen))
    cost = f"{show_duration(context.now() - change.at)} and {show_usd(usd)}"
    verb = "Staying on" if chosen == here else "Moving to"
    context.add_event("decision", f"{verb} {chosen}: {why} (replanning took {cost})", deployment=chosen.key)
    context.change(changes=(*record.changes[:-1], change), moved_to=chosen)


def _as_trial(attempt: Attempt, status: TaskStatus, steady: Steady | None) -> Trial | None:
    """What the training itself has measured since the change; it costs nothing that is not on its own bill."""
    seen = throughput_after(status.progress.points, steady.since) if steady else None
    if seen is None:
        return None
    measurement = Measurement(
        seen.samples_per_second,
        seen.low,
        seen.high,
        seen.steps,
        seen.samples,
        status.progress.usage,
        parameters=steady.conditions.parameters if steady else 0.0,
    )
    return Trial(attempt.deployment, measurement, 0.0, 0.0, Phases(), attempt.task_id)


def _gain(record: JobRecord, trials: Sequence[Trial], here: Deployment, chosen: Deployment) -> float:
    """What the aim saves of the rest by having moved; nothing where a speed is not known."""
    rates = {t.deployment: t.measurement.samples_per_second for t in trials if t.measurement is not None}
    if here not in rates or chosen not in rates:
        return 0.0

    def value(deployment: Deployment) -> float:
        seconds = 1.0 / rates[deployment]
        return goal_of(record).value(seconds, deployment.usd(seconds))

    return 1.0 - value(chosen) / value(here)
