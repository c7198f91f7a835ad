"""The search: suggest, probe, remember, until the strategy stops; then the plan."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mlcd import registry
from mlcd.adapt.limits import promised_usd, rental_seconds
from mlcd.clouds.base import Recorded
from mlcd.core.goal import Goal
from mlcd.core.job import Job
from mlcd.core.machines import Deployment
from mlcd.core.plan import Plan
from mlcd.core.records import JobRecord, TaskRecord
from mlcd.core.study import Ledger, ProbeTime, Stop, Study
from mlcd.core.task import TaskKind
from mlcd.core.trial import Phases, Trial
from mlcd.engine.adopt_probe import finished_probe
from mlcd.engine.context import JobContext, goal_of, work_of
from mlcd.engine.earlier_jobs import Earlier, learn_from_earlier, report_earlier
from mlcd.engine.failures import (
    refuse_broken_program,
    refuse_failed_starts,
    refuse_failing_cloud,
    refuse_failing_program,
    trials_that_count,
)
from mlcd.engine.models import OWN_BATCH, expected_samples, report_samples
from mlcd.engine.probe import Probe
from mlcd.engine.programs import digest_of
from mlcd.engine.spaces import space_on
from mlcd.engine.tasks import carried_samples
from mlcd.errors import InvalidJobError, did_you_mean
from mlcd.search.base import Searcher
from mlcd.search.choose import best_feasible, make_plan
from mlcd.search.seen import measured_trials


class StopAskedError(Exception):
    """The user wants the job to stop; everything it started has ended."""


@dataclass
class Search:
    """One search under way."""

    context: JobContext
    searcher: Searcher
    earlier: Earlier
    probes: list[Probe] = field(default_factory=list)

    def run(self) -> Plan:
        """Look until it is not worth looking further."""
        self._take_over()
        while True:
            while len(self.probes) >= self._record.job.search.parallel:
                self._wait_for_one()
            step = self._suggest()
            self._check_stop()  # who may have asked while a probe ended, or while the strategy was thinking
            if isinstance(step, Deployment):
                self._begin(step)
            elif self.probes:
                self._wait_for_one()
            else:
                return self._plan(step)

    @property
    def _record(self) -> JobRecord:
        return self.context.record

    def _take_over(self) -> None:
        """Go on with the probes of a controller that died."""
        for task in self.context.store.tasks(self.context.job_id, open_only=True):
            if task.kind is TaskKind.PROBE:
                self._launch(task)

    def _suggest(self) -> Deployment | Stop:
        """What the strategy wants, unless a limit or the user says no."""
        study = self._study()
        refuse_failing_cloud(study.trials, len(study.space))
        refuse_broken_program(study.trials, len(study.space))
        if (done := self._all_done(study)) is not None:
            return done
        step = self.searcher.suggest(study)
        if isinstance(step, Deployment) and self._allowed(study, step) < self._record.job.probe.min_seconds:
            best = best_feasible(study)
            return Stop(best.deployment if best else None, "nothing more can be tried within the limits")
        return step

    def _all_done(self, study: Study) -> Stop | None:
        """The end of the search, where a probe has done all the work."""
        probe = finished_probe(self.context, self._record)
        if probe is None or all(trial.deployment != probe.deployment for trial in measured_trials(study)):
            return None
        return Stop(probe.deployment, "a probe has done all the work already")

    def _begin(self, deployment: Deployment) -> None:
        self.context.add_event("probe", f"Trying {deployment}", deployment=deployment.key)
        # Of several at once only the first can carry the training on.
        carries = self._record.job.checkpoint.carry and not self.probes
        self._launch(self.context.intend(TaskKind.PROBE, deployment, carries))

    def _launch(self, task: TaskRecord) -> None:
        """Start the probe, or take it over."""
        probe = Probe(self.context, task, self._allowed(self._study(), task.deployment))
        probe.launch()
        self.probes.append(probe)

    def _wait_for_one(self) -> None:
        """Return when a probe is over."""
        while not self._finish_some():
            self._check_stop()
            self.context.cloud.clock.sleep(self.context.cloud.poll_seconds)

    def _finish_some(self) -> bool:
        over = [probe for probe in self.probes if probe.check() is not None]
        self.probes = [probe for probe in self.probes if probe not in over]
        return bool(over)

    def _check_stop(self) -> None:
        if self._record.stop_asked:
            for probe in self.probes:
                probe.abandon()
            raise StopAskedError

    def _study(self) -> Study:
        pending = tuple(probe.record.deployment for probe in self.probes)
        record = self._learn()
        study = study_of(self.context, record, space_of(self.context, record), pending)
        return replace(study, earlier=(*study.earlier, *self.earlier.studies(study.trials)))

    def _learn(self) -> JobRecord:
        """Take over what earlier jobs and the probes so far tell of the work."""
        record, own = self._record, self.context.store.trials(self.context.job_id)
        report_earlier(self.context, self.earlier, own)
        samples = expected_samples(self.context, record, self.earlier, own)
        return record if samples == record.samples_at else self.context.change(samples_at=samples)

    def _allowed(self, study: Study, deployment: Deployment) -> float:
        """How long a probe may run at the most: the best known deployment must stay within reach."""
        best = best_feasible(study)
        reserve = Ledger()
        if best is not None and best.measurement is not None:
            seconds = study.training_seconds(best.deployment, best.measurement.samples_per_second)
            reserve = Ledger(seconds, best.deployment.rental_usd(seconds))
        usd = study.spent.usd + reserve.usd
        spent = Ledger(study.spent.seconds + reserve.seconds, usd + self._promised_usd(study.goal, usd))
        ending_seconds = self._record.job.checkpoint.grace_seconds + self.context.cloud.ending_seconds
        return rental_seconds(study.goal, spent, deployment, ending_seconds)

    def _promised_usd(self, goal: Goal, spent_usd: float) -> float:
        """What one more probe must leave to those at its side."""
        under_way = sum(probe.record.deployment.usd(probe.max_seconds) for probe in self.probes)
        to_join = max(0, self._record.job.search.parallel - len(self.probes) - 1)
        return promised_usd(goal, spent_usd, under_way, to_join)

    def _plan(self, stop: Stop) -> Plan:
        study = self._study()
        if stop.choice is None:
            refuse_failing_program(study.trials)
            refuse_failed_starts(study.trials)
        plan = make_plan(study, stop, self.searcher.beliefs(study))
        report_samples(self.context, self._record, self.earlier, study.trials)
        return plan


def open_search(context: JobContext) -> Search:
    """The search of a job, new or taken over."""
    record = context.record
    if not record.offers:
        samples = work_of(record.job).samples
        samples_at = dict(context.cloud.samples_at(samples)) if isinstance(context.cloud, Recorded) else {}
        record = context.change(
            offers=tuple(context.cloud.offers()),
            samples_at=samples_at,
            start_seconds=context.cloud.start_seconds,
            code=digest_of(record.job.workdir),
        )
        for notice in space_on(context.cloud, record.job, record.offers).notices:
            context.add_event("warning", notice)
    return Search(context, open_searcher(record), learn_from_earlier(context, record))


def open_searcher(record: JobRecord) -> Searcher:
    """The strategy that the job asks for."""
    return searcher_for(record.job)


def searcher_for(job: Job) -> Searcher:
    """The strategy with its options; what is wrong with them is named."""
    settings = job.search
    strategy = registry.load("searchers", settings.strategy)
    known = inspect.signature(strategy).parameters
    for name in settings.options:
        if name not in known:
            raise InvalidJobError(
                f"The strategy '{settings.strategy}' has no option '{name}'.",
                did_you_mean(name, known),
                f"search.options.{name}",
            )
    searcher: Searcher = strategy(**settings.options)
    return searcher


def space_of(context: JobContext, record: JobRecord) -> tuple[Deployment, ...]:
    """Every deployment that may be tried."""
    return space_on(
        context.cloud, record.job, record.offers, context.store.trials(context.job_id)
    ).deployments


def study_of(
    context: JobContext,
    record: JobRecord,
    space: tuple[Deployment, ...],
    pending: tuple[Deployment, ...] = (),
) -> Study:
    """All that the strategy may see, read from the store; what probes have trained is done.

    Of a job that has changed, what was measured before is an earlier study.
    """
    made, outdated = context.store.trials(context.job_id), record.outdated
    trials = trials_that_count(made[outdated:], max(0, record.forgiven - outdated))
    done, probes = carried_samples(context.folder), record.job.probe
    return Study(
        goal=goal_of(record),
        space=space,
        samples=max(1.0, record.samples_at.get(OWN_BATCH, work_of(record.job).samples) - done),
        trials=trials,
        spent=context.spent(record),
        samples_at={batch: max(1.0, samples - done) for batch, samples in record.samples_at.items()},
        probe_time=learnt_probe_time(context.cloud.expected_probe(probes.measuring_seconds), trials),
        start_seconds=learnt_start(record.start_seconds, trials, probes.warmup_seconds),
        probe_training_share=training_share(trials) if done > 0 else 0.0,
        pending=pending,
        seed=record.job.search.seed,
        max_probes=_probes_left(record),
        earlier=(made[:outdated],) if outdated else (),
    )


def _probes_left(record: JobRecord) -> int | None:
    """The user's cap for this search; the speed that a search made again begins with was no probe."""
    cap = record.job.search.max_probes
    return None if cap is None else max(0, cap - record.outdated) + bool(record.changes)


def learnt_probe_time(expected: ProbeTime, trials: Sequence[Trial]) -> ProbeTime:
    """The expectation, scaled to what probes really took."""
    took = [trial for trial in trials if trial.measurement is not None]
    if not took:
        return expected
    ratio = sum(t.seconds for t in took) / sum(expected.seconds(t.deployment.nodes) for t in took)
    return ProbeTime(expected.first_seconds * ratio, expected.step_seconds * ratio, expected.nodes_per_step)


def training_share(trials: Sequence[Trial]) -> float:
    """The part of a probe's time in which it made steps: training, where checkpoints carry it on."""
    took = [trial for trial in trials if trial.measurement is not None and trial.seconds > 0]
    return sum(t.phases.measuring for t in took) / sum(t.seconds for t in took) if took else 0.0


def learnt_start(expected: float | None, trials: Sequence[Trial], warmup_seconds: float) -> float:
    """From launch to the first step, as the probes showed it unless the cloud knows."""
    if expected is not None:
        return expected
    took = [_to_first_step(t.phases, warmup_seconds) for t in trials if t.measurement is not None]
    return sum(took) / len(took) if took else 0.0


def _to_first_step(phases: Phases, warmup_seconds: float) -> float:
    return phases.start + phases.setup + max(0.0, phases.warmup - warmup_seconds)
