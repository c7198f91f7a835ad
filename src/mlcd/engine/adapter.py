"""How the run is going, put together for the policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from mlcd.adapt.base import Keep, Move, Situation, Speed
from mlcd.adapt.changes import Replan, has_changed
from mlcd.adapt.policies import LOSSES_TO_SHRINK, POLICIES, URGENT, decide
from mlcd.adapt.spot import leave_spot, leave_what_is_sold_out, with_twins
from mlcd.core.conditions import Conditions
from mlcd.core.machines import Deployment
from mlcd.core.records import JobRecord
from mlcd.core.run import Attempt, AttemptEnd
from mlcd.core.study import Study
from mlcd.core.task import TaskStatus
from mlcd.engine.context import JobContext, goal_of
from mlcd.engine.earlier_jobs import learn_from_earlier
from mlcd.engine.ledger import recent_speed
from mlcd.engine.replan import worth_replanning
from mlcd.engine.spaces import space_of
from mlcd.engine.study import study_of
from mlcd.engine.tasks import carried_samples
from mlcd.forecast.observed_conditions import Steady, steady_conditions
from mlcd.forecast.observed_noise import noise_now
from mlcd.forecast.throughput import first_step_seconds, throughput_after
from mlcd.search.base import Searcher
from mlcd.search.expectations import expected_speeds
from mlcd.search.options import searcher_for
from mlcd.search.trials import failed_trials, measured_trials

CONSIDER_SECONDS = 5.0  # how often a change of course is considered
LEFT_SPREAD = 0.1  # of the speed at which a deployment was left
STOP_SECONDS = 2.0  # what saving and ending takes of most programs


class Adapter:
    """Considers a change of course now and then, for one attempt of training."""

    def __init__(self, context: JobContext, record: JobRecord) -> None:
        self.context = context
        self._considered_at = context.now()
        study = study_of(context, record, space_of(context, record))
        self._study = learn_from_earlier(context, record).with_jobs(study, study.trials)
        attempts = context.store.attempts(context.job_id)
        left = speeds_left(attempt for attempt in attempts if attempt.started_at >= record.changed_at)
        speeds = {**known_speeds(self._study, searcher_for(record.job)), **left}
        shunned = lost_often(attempts) - {record.deployment}
        self._speeds = {where: speed for where, speed in speeds.items() if where not in shunned}

    def leave_out(self, deployment: Deployment) -> None:
        """Never ask for this one."""
        self._speeds = {where: speed for where, speed in self._speeds.items() if where != deployment}

    def consider(self, record: JobRecord, attempt: Attempt, status: TaskStatus) -> Keep | Move | Replan:
        """What the policies ask for; a job without a checkpoint has nothing to move with."""
        now = self.context.now()
        if not record.job.elastic or now - self._considered_at < CONSIDER_SECONDS:
            return Keep()
        self._considered_at = now
        situation = self._as_seen(record, attempt, status)
        if situation is None or carried_samples(self.context.folder) <= 0:
            return Keep()
        steady = steady_conditions(status.progress)
        before = self._conditions_at_first(record, attempt, steady)
        if steady is None or before is None or not has_changed(before, steady.conditions):
            return decide(situation, URGENT if record.moved_by_user else POLICIES)
        situation = self._since_change(situation, status, steady)
        course = decide(situation, URGENT)
        if isinstance(course, Move) or record.moved_by_user:
            return course
        decision = worth_replanning(situation, record, before, steady.conditions, self._study)
        return decision if isinstance(decision, Replan) else decide(situation)

    def _conditions_at_first(self, record: JobRecord, attempt: Attempt, steady: Steady | None) -> Conditions | None:
        """As they were when this deployment was measured, or else when the training there began; None: not known yet."""
        here = [trial for trial in measured_trials(self._study) if trial.deployment == attempt.deployment]
        if here and here[-1].measurement is not None:
            return here[-1].measurement.conditions
        known = record.conditions.get(attempt.deployment.key)
        if known is None and steady is not None:
            self.context.change(conditions={**record.conditions, attempt.deployment.key: steady.conditions})
        return known

    def _since_change(self, situation: Situation, status: TaskStatus, steady: Steady) -> Situation:
        """Of a job that has changed only the present speed is known; others are taken to have changed alike."""
        seen, known = (
            throughput_after(status.progress.points, steady.since),
            situation.speeds.get(situation.deployment),
        )
        if seen is None or known is None:
            return situation
        ratio = seen.samples_per_second / known.samples_per_second
        return replace(
            situation,
            now=Speed(seen.samples_per_second, seen.low, seen.high),
            watched_seconds=seen.seconds,
            speeds={
                where: Speed(speed.samples_per_second * ratio, speed.low * ratio, speed.high * ratio)
                for where, speed in situation.speeds.items()
            },
        )

    def after_loss(self, record: JobRecord, attempt: Attempt, sold_out: bool) -> Keep | Move:
        """Where to go on once machines were lost, or could not be had at all."""
        speed = self._speeds.get(attempt.deployment)
        if speed is None:
            return Keep()
        before = list(self.context.store.attempts(self.context.job_id))
        situation = self._situation(record, attempt, before, carried_samples(self.context.folder), speed)
        return leave_what_is_sold_out(situation) if sold_out else leave_spot(situation)

    def _as_seen(self, record: JobRecord, attempt: Attempt, status: TaskStatus) -> Situation | None:
        """The situation while it runs, once there is a speed to see."""
        seen, first = recent_speed(status), first_step_seconds(status.progress.points)
        if seen is None or first is None:
            return None
        attempts = self.context.store.attempts(self.context.job_id)
        before = [each for each in attempts if each.number < attempt.number]
        done = attempt.samples_before + status.progress.samples
        now = Speed(seen.samples_per_second, seen.low, seen.high)
        return replace(
            self._situation(record, attempt, before, done, now),
            watched_seconds=status.progress.points[-1].seconds - first,
            noise_scale=noise_now(status.progress),
        )

    def _situation(
        self, record: JobRecord, attempt: Attempt, before: list[Attempt], done: float, now: Speed
    ) -> Situation:
        return Situation(
            goal=goal_of(record),
            spent=self.context.spent(record),
            deployment=attempt.deployment,
            now=now,
            watched_seconds=0.0,
            samples_left=max(0.0, record.samples(attempt.deployment) - done),
            speeds=self._speeds,
            move_seconds=self._study.start_seconds + STOP_SECONDS,
            moves=sum(each.end is AttemptEnd.MOVED for each in before),
            losses=_losses_in_a_row(before),
            samples_at=record.samples_at,
        )


def known_speeds(study: Study, searcher: Searcher) -> Mapping[Deployment, Speed]:
    """What was measured, and what is believed of the rest; nothing of what failed."""
    believed = {
        belief.deployment: Speed(belief.samples_per_second, belief.low, belief.high)
        for belief in expected_speeds(searcher, study)
    }
    measured = {
        trial.deployment: Speed(seen.samples_per_second, seen.low, seen.high)
        for trial in measured_trials(study)
        if (seen := trial.measurement) is not None
    }
    failed = {trial.deployment for trial in failed_trials(study)}
    speeds = with_twins({**believed, **measured}, measured)
    return {deployment: speed for deployment, speed in speeds.items() if deployment not in failed}


def speeds_left(attempts: Iterable[Attempt]) -> Mapping[Deployment, Speed]:
    """How fast deployments were when the training left them: what it saw itself goes before a probe."""
    return {
        attempt.deployment: Speed(rate, rate * (1 - LEFT_SPREAD), rate * (1 + LEFT_SPREAD))
        for attempt in attempts
        if attempt.end is AttemptEnd.MOVED and (rate := attempt.samples_per_second) > 0
    }


def lost_often(attempts: Iterable[Attempt]) -> set[Deployment]:
    """Where nodes were lost so often that the training does not go back there."""
    lost = Counter(attempt.deployment for attempt in attempts if attempt.end is AttemptEnd.LOST)
    return {deployment for deployment, times in lost.items() if times >= LOSSES_TO_SHRINK}


def _losses_in_a_row(before: list[Attempt]) -> int:
    count = 0
    for attempt in reversed(before):
        if attempt.end is not AttemptEnd.LOST:
            break
        count += 1
    return count
