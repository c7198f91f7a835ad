"""The search: suggest, probe, remember, until the strategy stops; then the plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mlcd.adapt.limits import promised_usd, rental_seconds
from mlcd.clouds.base import Recorded
from mlcd.core.goal import Goal
from mlcd.core.machines import Deployment
from mlcd.core.plan import Plan
from mlcd.core.records import JobRecord, TaskRecord
from mlcd.core.study import Ledger, Stop, Study
from mlcd.core.task import TaskKind
from mlcd.engine.adopt_probe import finished_probe
from mlcd.engine.context import JobContext, work_of
from mlcd.engine.earlier_jobs import Earlier, learn_from_earlier, report_earlier
from mlcd.engine.failures import (
    refuse_broken_program,
    refuse_failed_starts,
    refuse_failing_cloud,
    refuse_failing_program,
)
from mlcd.engine.models import expected_samples, report_samples
from mlcd.engine.probe import Probe
from mlcd.engine.programs import digest_of
from mlcd.engine.spaces import space_of, space_on
from mlcd.engine.stop import StopAskedError
from mlcd.engine.study import study_of
from mlcd.engine.tasks import carried_samples
from mlcd.search.base import Searcher
from mlcd.search.choose import best_feasible, make_plan
from mlcd.search.expectations import expected_speeds
from mlcd.search.options import searcher_for
from mlcd.search.trials import measured_trials


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
        return self.context.load_record()

    def _take_over(self) -> None:
        """Go on with the probes of a controller that died."""
        for task in self.context.store.tasks(self.context.job_id, open_only=True):
            if task.kind is TaskKind.PROBE:
                self._launch(task)

    def _suggest(self) -> Deployment | Stop:
        """What the strategy wants, unless a limit or the user says no."""
        study = self._study()
        refuse_failing_cloud(study.trials, len(study.space))
        refuse_broken_program(study.trials, study.space)
        if (done := self._all_done(study)) is not None:
            return done
        step = self.searcher.suggest(study)
        if isinstance(step, Deployment) and self._allowed(study, step) < self._needed(study, step):
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
        return self.earlier.with_jobs(study, study.trials)

    def _learn(self) -> JobRecord:
        """Take over what earlier jobs and the probes so far tell of the work."""
        record, own = self._record, self.context.store.trials(self.context.job_id)
        report_earlier(self.context, self.earlier, own)
        expected, used = expected_samples(self.context, record, self.earlier, own), self.earlier.used(own)
        samples = {batch: each.value for batch, each in expected.items()}
        spread = {batch: each.log_spread for batch, each in expected.items() if each.high > each.low}
        if (record.samples_at, record.samples_spread, record.learnt_from) == (samples, spread, used):
            return record
        return self.context.change(samples_at=samples, samples_spread=spread, learnt_from=used)

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

    def _needed(self, study: Study, deployment: Deployment) -> float:
        """What a probe takes: with a deployment in hand, one that would be cut off before is not rented at all."""
        least = self._record.job.probe.min_seconds
        return least if best_feasible(study) is None else max(least, study.probe_seconds(deployment))

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
        plan = make_plan(study, stop, expected_speeds(self.searcher, study))
        report_samples(self.context, self._record, self.earlier, study.trials)
        return replace(plan, trained=carried_samples(self.context.folder))


def open_search(context: JobContext) -> Search:
    """The search of a job, new or taken over."""
    record = context.load_record()
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
    return Search(context, searcher_for(record.job), learn_from_earlier(context, record))
