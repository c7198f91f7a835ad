"""How well the performance models forecast training times of recorded jobs, beside Scavenger's figures.

What is seen of a job, and what its error is taken over (always: every recorded deployment and batch size):

    full        every deployment profiled for STEPS noisy steps; samples to the target at every second batch size
    partial     at most six deployments of each instance type profiled; samples at the two extreme batch sizes
    universal   one probe on two nodes, work at the smallest batch size, and other jobs' models
    one device  the same, but the probe sees nothing of the exchange
    scale only  the same, but it tells a single step time
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from zlib import crc32

import numpy as np

from mlcd.forecast.design import profile_partly
from mlcd.forecast.estimate import Estimate, spread_around
from mlcd.forecast.parallel import Placement, StepLaw
from mlcd.forecast.samples_needed import OtherNoise, universal_growth
from mlcd.forecast.statistical import Form, SamplesModel, Work, fit_form, fit_samples, leave_one_out_error
from mlcd.forecast.step_fit import Profile, fit_steps
from mlcd.forecast.training_model import TrainingModel
from mlcd.forecast.universal import Probe, universal_model
from mlcd_bench.models.data import Recorded, RecordedJob

STEPS = 20
STEP_NOISE = 0.02
FLAT = 1e3  # × largest batch: the noise scale of a job that needs no more samples at any batch size


class Mode(StrEnum):
    """How much of a job is seen."""

    FULL = "full"
    PARTIAL = "partial"
    UNIVERSAL = "universal"
    ONE_DEVICE = "universal_one_device"
    SCALE_ONLY = "universal_scale_only"


@dataclass(frozen=True)
class Prediction:
    """The forecast of one recorded deployment beside the truth."""

    recorded: Recorded
    forecast: Estimate

    @property
    def error(self) -> float:
        """|forecast − truth| ÷ truth."""
        return abs(self.forecast.value / self.recorded.training_seconds - 1.0)

    @property
    def covered(self) -> bool:
        """Whether the 95 % interval holds the truth."""
        return self.forecast.low <= self.recorded.training_seconds <= self.forecast.high


@dataclass(frozen=True)
class JobForms:
    """How each form of the statistical model forecasts a job's batch sizes, each from all the others."""

    errors: Mapping[str, float]
    best: str


Results = dict[Mode, dict[str, tuple[Prediction, ...]]]  # mode → job → forecasts


def run_models(jobs: Sequence[RecordedJob], seed: int = 0) -> Results:
    """Every job predicted in every mode, each from itself and from the others."""
    learnt = {job.name: learn_job(job, seed) for job in jobs}
    results: Results = {mode: {} for mode in Mode}
    for job in jobs:
        others = [learnt[name] for name in learnt if name != job.name]
        for mode, predicted in predict_job(job, others, seed).items():
            results[mode][job.name] = predicted
    return results


def predict_job(job: RecordedJob, others: Sequence[LearntJob], seed: int = 0) -> dict[Mode, tuple[Prediction, ...]]:
    """One job predicted in every mode, with what was learnt of others."""
    profiler = _Profiler(job, seed)
    results = {
        Mode.FULL: _predict_all(job, _full(job, profiler)),
        Mode.PARTIAL: _predict_all(job, _partial(job, profiler).training_seconds),
    }
    for mode in (Mode.UNIVERSAL, Mode.ONE_DEVICE, Mode.SCALE_ONLY):
        results[mode] = _predict_all(job, _universal(job, profiler, others, mode))
    return results


def compare_forms(job: RecordedJob) -> JobForms | None:
    """Which form of the statistical model a job follows; None where it has too few batch sizes to tell."""
    if len(job.work) < 4:
        return None
    errors = {form.value: leave_one_out_error(form, job.work) for form in (Form.NOISE_SCALE, Form.ROOT, Form.SCAVENGER)}
    return JobForms(errors, min(errors, key=lambda name: errors[name]))


class _Profiler:
    """Runs STEPS steps of a recorded deployment: its step time with noise, the same each time it is asked."""

    def __init__(self, job: RecordedJob, seed: int) -> None:
        noise = np.random.default_rng([seed, crc32(job.name.encode())])
        self._means = noise.normal(0.0, STEP_NOISE, (len(job.recorded), STEPS)).mean(axis=1)
        self._rows = {one.placement: row for row, one in enumerate(job.recorded)}
        self._job = job
        self._extra = float(noise.normal(0.0, STEP_NOISE, STEPS // 2).mean())

    def step_seconds(self, placement: Placement) -> float:
        row = self._rows[placement]
        return float(self._job.recorded[row].step_seconds * (1.0 + self._means[row]))

    def piece_seconds(self, seconds: float) -> float:
        return seconds * (1.0 + self._extra)


def _full(job: RecordedJob, profiler: _Profiler) -> Callable[[Placement], Estimate]:
    samples = fit_samples(_every_second(job.work))
    spread = STEP_NOISE / STEPS**0.5

    def training_seconds(placement: Placement) -> Estimate:
        step = spread_around(profiler.step_seconds(placement), spread)
        return samples.samples(placement.batch).scaled(1.0 / placement.batch).times(step)

    return training_seconds


def _partial(job: RecordedJob, profiler: _Profiler) -> TrainingModel:
    steps = {
        family: profile_partly([one.placement for one in rows], profiler.step_seconds)
        for family, rows in job.families.items()
    }
    return TrainingModel(dict(steps), fit_samples([job.work[0], *job.work[1:][-1:]]))


def _universal(
    job: RecordedJob, profiler: _Profiler, others: Sequence[LearntJob], mode: Mode
) -> Callable[[Placement], Estimate]:
    smallest = min(one.placement.micro_batch for one in job.recorded)
    probe = _probe(job, profiler, smallest, mode)
    steps = universal_model(probe, smallest, [other.laws for other in others])
    base, noise = job.work[0], job.first_noise.get(probe.placement.batch)

    def training_seconds(placement: Placement) -> Estimate:
        growth = universal_growth(
            base.batch, placement.batch, job.work[-1].batch, noise, [other.noise for other in others]
        )
        return growth.scaled(base.samples / placement.batch).times(steps.step(placement))

    return training_seconds


def _probe(job: RecordedJob, profiler: _Profiler, smallest: float, mode: Mode) -> Probe:
    """The one probe: on the fewest, cheapest devices, at the largest batch that they hold in one piece.

    Where the probe runs pieces, some of its steps cut the batch into pieces of the smallest micro-batch. On two nodes
    each of them does that by itself, and then they run their smallest batch together.
    """
    whole = [one for one in job.recorded if one.placement.micro_batches == 1] or list(job.recorded)
    where = min(whole, key=lambda one: (one.placement.devices, one.usd_per_hour, one.placement.instance)).placement
    here = [one for one in whole if (one.placement.instance, one.placement.nodes) == (where.instance, where.nodes)]
    ordered = sorted(here, key=lambda one: one.placement.batch)
    if mode is Mode.SCALE_ONLY:
        return Probe(ordered[0].placement, profiler.step_seconds(ordered[0].placement))
    probe = _in_pieces(job, profiler, smallest, ordered)
    return _together(job, profiler, probe) if mode is Mode.UNIVERSAL else probe


def _in_pieces(job: RecordedJob, profiler: _Profiler, smallest: float, ordered: Sequence[Recorded]) -> Probe:
    """The largest batch, whole and in pieces."""
    probed = ordered[-1].placement
    known = job.pieces.get(probed.family) or tuple((one.placement.micro_batch, one.step_seconds) for one in ordered)
    samples = max(smallest, known[0][0])
    if samples >= probed.micro_batch:
        return Probe(probed, profiler.step_seconds(probed))
    seconds = float(np.interp(samples, [size for size, _ in known], [each for _, each in known]))
    return Probe(probed, profiler.step_seconds(probed), samples, profiler.piece_seconds(seconds))


def _together(job: RecordedJob, profiler: _Profiler, probe: Probe) -> Probe:
    """The probe with what its two nodes, or the fewest that there are, showed together."""
    type_ = probe.placement.instance
    several = [one.placement for one in job.recorded if one.placement.instance == type_ and one.placement.nodes > 1]
    if probe.placement.devices > 1 or not several:
        return probe
    smallest = min(several, key=lambda one: (one.nodes, one.batch))
    return replace(probe, together=smallest, together_seconds=profiler.step_seconds(smallest))


@dataclass(frozen=True)
class LearntJob:
    """What was learnt of a job when it was profiled everywhere: its stored model, lent to other jobs."""

    laws: Mapping[str, StepLaw]
    noise: OtherNoise


def learn_job(job: RecordedJob, seed: int = 0) -> LearntJob:
    """What a job leaves to others once it was profiled everywhere."""
    profiler = _Profiler(job, seed)
    laws = {family: _law(rows, profiler) for family, rows in job.families.items()}
    base, largest = job.work[0].batch, job.work[-1].batch
    model = fit_form(Form.NOISE_SCALE, job.work) if len(job.work) > 1 else None
    scale = min(_scale(model), FLAT * largest)
    return LearntJob(laws, OtherNoise(scale, job.first_noise.get(base)))


def _law(rows: Iterable[Recorded], profiler: _Profiler) -> StepLaw:
    placements = [one.placement for one in rows]
    return fit_steps(placements, [Profile(one, profiler.step_seconds(one)) for one in placements]).law()


def _scale(model: SamplesModel | None) -> float:
    return model.noise_scale if model is not None else float("inf")


def _every_second(work: Sequence[Work]) -> list[Work]:
    """Every second batch size, both ends among them."""
    return [*work[:-1:2], work[-1]]


def _predict_all(job: RecordedJob, forecast: Callable[[Placement], Estimate]) -> tuple[Prediction, ...]:
    return tuple(Prediction(one, forecast(one.placement)) for one in job.recorded)
