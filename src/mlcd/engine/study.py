"""A job's study, read from the store: all that its strategy may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlcd.core.machines import Deployment
from mlcd.core.records import JobRecord
from mlcd.core.study import ProbeTime, Study
from mlcd.core.trial import Phases, Trial, of_search
from mlcd.engine.context import JobContext, goal_of, work_of
from mlcd.engine.failures import trials_that_count
from mlcd.engine.models import OWN_BATCH
from mlcd.engine.tasks import carried_samples


def study_of(
    context: JobContext,
    record: JobRecord,
    space: tuple[Deployment, ...],
    pending: tuple[Deployment, ...] = (),
) -> Study:
    """All that the strategy may see, read from the store; what probes have trained is done.

    Of a job that has changed, what was measured before is an earlier study.
    """
    made, number = context.store.trials(context.job_id), record.search_number
    earlier = tuple(trial for trial in made if trial.search_number < number)
    trials = at_todays_memory(trials_that_count(of_search(made, number), record.fixes), space)
    done, probes = carried_samples(context.folder), record.job.probe
    return Study(
        goal=goal_of(record),
        space=space,
        samples=max(1.0, record.samples_at.get(OWN_BATCH, work_of(record.job).samples) - done),
        trials=trials,
        spent=context.spent(record),
        samples_at={batch: max(1.0, samples - done) for batch, samples in record.samples_at.items()},
        samples_spread=record.samples_spread,
        probe_time=learnt_probe_time(context.cloud.expected_probe(probes.measuring_seconds), trials),
        start_seconds=learnt_start(record.start_seconds, trials, probes.warmup_seconds),
        probe_training_share=training_share(trials) if done > 0 else 0.0,
        pending=pending,
        seed=record.job.search.seed,
        max_probes=_probes_left(record, len(earlier)),
        earlier=(earlier,) if earlier else (),
    )


def at_todays_memory(trials: Sequence[Trial], space: Sequence[Deployment]) -> tuple[Trial, ...]:
    """A training would rent the memory that is known to be needed by now, whatever its probe had."""
    now = {deployment: deployment for deployment in space if deployment.memory_gib}
    return tuple(replace(trial, deployment=now.get(trial.deployment, trial.deployment)) for trial in trials)


def _probes_left(record: JobRecord, made: int) -> int | None:
    """The user's cap less the trials of earlier searches; the speed that replanning begins with was no probe."""
    cap = record.job.search.max_probes
    return None if cap is None else max(0, cap - made) + bool(record.changes)


def learnt_probe_time(expected: ProbeTime, trials: Sequence[Trial]) -> ProbeTime:
    """The expectation, scaled to what probes really took."""
    took = [trial for trial in trials if trial.measurement is not None]
    if not took:
        return expected
    ratio = sum(t.seconds for t in took) / sum(expected.seconds(t.deployment.nodes) for t in took)
    return ProbeTime(
        expected.first_seconds * ratio,
        expected.step_seconds * ratio,
        expected.nodes_per_step,
        expected.several_seconds * ratio,
    )


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
