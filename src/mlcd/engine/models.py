"""The models of a job: how many samples it is expected to need, and what it leaves for later jobs."""

from __future__ import annotations

from collections.abc import Iterable

from mlcd.clouds.base import Recorded
from mlcd.core.machines import Deployment
from mlcd.core.progress import MetricPoint
from mlcd.core.records import JobRecord
from mlcd.core.run import Attempt
from mlcd.core.trial import of_search
from mlcd.engine.context import JobContext
from mlcd.engine.earlier_jobs import Earlier, Trials, noise_in
from mlcd.engine.programs import fingerprint
from mlcd.engine.tasks import with_base
from mlcd.forecast.estimate import Estimate, spread_around
from mlcd.forecast.observed_noise import noise_over_all, stable_readings
from mlcd.forecast.profiles import laws_of
from mlcd.forecast.samples_needed import NoiseKnown, OtherNoise, at_one_batch, samples_needed
from mlcd.forecast.statistical import Work
from mlcd.forecast.stored import StoredModel, to_document

MOST_READINGS = 2000  # of each metric
OWN_BATCH = 0  # stands for the batch size of a program that gets none


def expected_samples(context: JobContext, record: JobRecord, earlier: Earlier, own: Trials) -> dict[int, Estimate]:
    """Batch size → samples to the job's target, as far as anything tells.

    A job without a target has its work, whatever the batch size; of a recording it is recorded.
    """
    work, batches = record.job.work, record.job.batch_sizes.choices
    if isinstance(context.cloud, Recorded) or work is None or work.until is None:
        return {batch: spread_around(samples, 0.0) for batch, samples in record.samples_at.items()}
    known = _trained(record, earlier)
    if not known and len(batches) > 1:
        known = [Work(with_base(record.job).base_batch_size or min(batches), work.samples)]
    return samples_needed(batches or (OWN_BATCH,), known, noise_known(earlier, own))


def noise_known(earlier: Earlier, own: Trials) -> NoiseKnown:
    """Over a whole training of this job, at its beginning, and what other jobs had."""
    whole = next((model.noise_scale for model in earlier.trained if model.noise_scale is not None), None)
    others = (
        OtherNoise(past.model.noise_scale, past.model.first_noise)
        for past in earlier.pasts
        if past.model is not None and past.model.noise_scale is not None
    )
    return NoiseKnown(whole, noise_in(own), tuple(others))


def _trained(record: JobRecord, earlier: Earlier) -> list[Work]:
    """What earlier trainings to the same target took; of one whose program kept its batch size to itself others learn nothing."""
    known = (model.work for model in earlier.trained)
    has_sizes = bool(record.job.batch_sizes.choices)
    return [work for work in known if work is not None and (work.batch != OWN_BATCH) is has_sizes]


def most_samples(context: JobContext, record: JobRecord, deployment: Deployment) -> float:
    """What the training may take at most: with a target the user's word is a cap, however little is expected."""
    expected, work = record.samples(deployment), record.job.work
    if work is None or work.until is None or isinstance(context.cloud, Recorded):
        return expected
    return max(expected, work.samples)


def report_samples(context: JobContext, record: JobRecord, earlier: Earlier, own: Trials) -> None:
    """Say what the forecast takes the work to be, and from where it knows."""
    if isinstance(context.cloud, Recorded) or not record.samples_at:
        return
    at = ", ".join(_at(batch, samples) for batch, samples in sorted(record.samples_at.items()))
    source = " and ".join(_sources(record, earlier, noise_known(earlier, own)))
    context.add_event("learn", f"Samples to the target: {at} (from {source})", samples_at=record.samples_at)


def _sources(record: JobRecord, earlier: Earlier, noise: NoiseKnown) -> Iterable[str]:
    """What the samples at each batch size rest on."""
    trained = _trained(record, earlier)
    if trained:
        yield ", ".join(model.job for model in earlier.trained if model.work in trained)
    if len(record.samples_at) < 2 or len({work.batch for work in trained}) > 1:
        return
    if noise.whole is not None:
        yield f"a gradient noise scale of {noise.whole:,.0f} samples"
        return
    yield "the batch sizes on offer"
    if noise.first is not None and any(other.first_noise for other in noise.others):
        yield f"a gradient noise scale of {noise.first:,.0f} samples at the beginning"


def _at(batch: int, samples: float) -> str:
    return f"{samples:,.0f}" if batch == OWN_BATCH else f"{samples:,.0f} at batch {batch}"


def keep_model(context: JobContext, record: JobRecord) -> None:
    """Store the job's models with it."""
    context.change(learnt=to_document(model_of(context, record)))


def model_of(context: JobContext, record: JobRecord) -> StoredModel:
    """What the probes and the training have taught."""
    trials = of_search(context.store.trials(record.id), 0)  # later jobs begin as this one did
    metrics = context.store.metrics(record.id, MOST_READINGS)
    readings = stable_readings(metrics)
    noise = noise_over_all(metrics)
    first = noise_in(trials[:1]) or (readings[0] if readings else None)
    return StoredModel(
        job=record.id,
        fingerprint=fingerprint(record),
        laws=laws_of(trials),
        noise_scale=noise if noise is not None else noise_in(trials),
        first_noise=first,
        smallest_batch=min(record.job.batch_sizes.choices, default=1),
        work=_work_done(context.store.attempts(record.id), noise) if _reached_target(record, metrics) else None,
    )


def _reached_target(record: JobRecord, metrics: Iterable[MetricPoint]) -> bool:
    until = record.job.work.until if record.job.work else None
    return until is not None and until.reached_in(metrics)


def _work_done(attempts: tuple[Attempt, ...], noise: float | None) -> Work | None:
    """The samples that the training took; what probes trained is counted at the first attempt's batch."""
    if not attempts:
        return None
    trained = [Work(_batch(attempts[0]), attempts[0].samples_before)]
    for attempt, after in zip(attempts, (*attempts[1:], None), strict=True):
        kept = attempt.samples if after is None else after.samples_before - attempt.samples_before
        trained.append(Work(_batch(attempt), max(0.0, kept)))
    return at_one_batch(trained, noise)


def _batch(attempt: Attempt) -> int:
    return attempt.deployment.batch_size or OWN_BATCH
