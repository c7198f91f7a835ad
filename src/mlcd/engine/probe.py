"""One deployment tried: started, warmed up, measured until stable, stopped, recorded."""

from __future__ import annotations

from dataclasses import replace

from mlcd.core.live import Live
from mlcd.core.records import TaskRecord
from mlcd.core.task import TaskState, TaskStatus
from mlcd.core.trial import Failure, FailureKind, Measurement, Trial
from mlcd.core.units import show_duration, show_rate, show_usd
from mlcd.engine.context import JobContext
from mlcd.engine.fallback import Fallback, fall_back
from mlcd.engine.probe_result import probe_phases, probe_result
from mlcd.engine.secrets import redact
from mlcd.engine.stop import STOP_SECONDS, end_task
from mlcd.engine.tasks import probe_task
from mlcd.errors import NoCapacityError, UnfitDeploymentError
from mlcd.forecast.throughput import throughput_after


class Probe:
    """A probe under way. A new controller makes it anew from its record and goes on where it is."""

    def __init__(self, context: JobContext, record: TaskRecord, max_seconds: float) -> None:
        self.context = context
        self.record = record
        self.max_seconds = max_seconds
        self._job = context.load_record().job
        expected = context.cloud.expected_probe(self._job.probe.measuring_seconds)
        self._task = probe_task(
            self._job, record, context.folder, expected.seconds(record.deployment.nodes), max_seconds
        )
        self._outcome: Measurement | Failure | None = None
        self._handle = ""
        self._stop_at = 0.0

    def launch(self) -> None:
        """Start it, or take it over."""
        try:
            self._handle = self.context.launch(self.record, self._task)
        except NoCapacityError as error:
            self._outcome = Failure(FailureKind.NO_CAPACITY, error.message, hint=error.hint)
        except UnfitDeploymentError as error:
            self._outcome = Failure(FailureKind.UNFIT, error.message, hint=error.hint)

    def check(self) -> Trial | None:
        """The trial, once the probe is over and recorded."""
        if not self._handle and self._outcome is not None:
            return self._record_trial(TaskStatus(TaskState.FAILED), self._outcome)
        status = self.context.status(self._handle)
        outcome = self._outcome or probe_result(status, self.context.now(), self._job.probe)
        if outcome is None:
            self._show(status)
            return None
        if self._outcome is None:
            self._outcome, self._stop_at = outcome, self.context.now()
            if not status.state.ended:  # one that is over may have left machines for the next probe
                self.context.cloud.stop(self._handle)
                status = self.context.status(self._handle)
        return self._record_trial(status, outcome) if self._over(status) else None

    def abandon(self) -> None:
        """End it and record what it cost; it teaches nothing."""
        if self._handle:
            status = end_task(self.context, self._handle, self._task.grace_seconds)
            self.context.store.put_charges(self.context.job_id, self.record.id, self.record.kind, status.charges)
        self.context.store.end_task(self.record.id, self.context.now())

    def _over(self, status: TaskStatus) -> bool:
        patience = self._task.grace_seconds + STOP_SECONDS
        return status.state.ended or self.context.now() - self._stop_at > patience

    def _record_trial(self, status: TaskStatus, outcome: Measurement | Failure) -> Trial:
        """Trial, bill and end of the task in one stroke, so that no probe is paid twice."""
        if isinstance(outcome, Failure):
            went_back = self.record.carries and fall_back(self.context, self.record.id, status) is Fallback.TAKEN
            reason = FailureKind.NOT_LOADED if went_back else outcome.reason
            log_tail = redact(outcome.log_tail, self.context.secrets)
            outcome = replace(outcome, reason=reason, log_tail=log_tail)
        job, ended_at = self.context.load_record(), status.ended_at or self.context.now()
        begin = status.started_at or ended_at
        trial = Trial(
            deployment=self.record.deployment,
            outcome=outcome,
            seconds=max(0.0, ended_at - begin),
            usd=status.usd,
            phases=probe_phases(replace(status, ended_at=ended_at), self._job.probe),
            task_id=self.record.id,
            search_number=job.search_number,
            fixes=job.fixes,
        )
        self.context.store.finish_probe(self.context.job_id, trial, self.record.kind, status.charges, ended_at)
        self.context.add_event("trial", describe(trial), deployment=trial.deployment.key)
        return trial

    def _show(self, status: TaskStatus) -> None:
        seen = throughput_after(status.progress.points, 0.0)
        self.context.store.put_live(
            self.context.job_id,
            Live(
                task_id=self.record.id,
                kind=self.record.kind,
                state=status.state,
                deployment=self.record.deployment,
                seconds=self.context.now() - self.record.intended_at,
                usd=status.usd,
                samples=status.progress.samples,
                samples_per_second=seen.samples_per_second if seen else 0.0,
                left_seconds=None,
                total_seconds=None,
                total_usd=None,
                usage=status.progress.usage,
                seen_at=self.context.now(),
            ),
        )


def describe(trial: Trial) -> str:
    """A trial in one line."""
    cost = f"{show_duration(trial.seconds)}, {show_usd(trial.usd)}"
    if isinstance(trial.outcome, Failure):
        return f"{trial.deployment}: {trial.outcome.reason} ({trial.outcome.message}; {cost})"
    seen = trial.outcome
    share = (seen.high - seen.low) / 2 / seen.samples_per_second
    return f"{trial.deployment}: {show_rate(seen.samples_per_second)} ± {share:.0%} ({cost})"
