"""Tries the models on jobs unlike the recorded ones, made of real step times: `python benchmarks/models/unlike.py FOLDER [SEEDS]`.

Each recorded job is changed in one way and forecast, from itself or from the other recorded jobs as they are:

    as-recorded     nothing changed
    slow-exchange   what a step takes beyond its compute takes five times as long; fast-exchange: a fifth
    other-exchange  it takes what it takes another job, beside the smallest piece of compute
    little-memory   a device holds an eighth of the samples: most batches are accumulated
    cliff           from half of what a device holds, a sample takes half as long again
    other-gpus      each kind of GPU is faster or slower for this job by a factor of 1.5 (one standard deviation)
    all-samples     step times grow with the samples alone; few-samples: ten times less of a step does
    falling         larger batches need fewer samples, by D·(e* + θ/√B); steep: four times as many at the largest
    scattered       samples to the target scatter by 10 % from batch size to batch size
    odd-noise       the gradient noise at the beginning says nothing
    little-noise    it says that no batch size pays, and is wrong
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np

from mlcd.forecast.parallel import Placement
from mlcd_bench.models.data import Recorded, RecordedJob, read_jobs
from mlcd_bench.models.evaluation import Mode, learn_job, predict_job

Change = Callable[[RecordedJob, RecordedJob, np.random.Generator], RecordedJob]
Curve = Callable[[str, float], float]  # family, micro-batch → seconds


def alone(job: RecordedJob) -> Curve:
    """Seconds of one piece on one device, as recorded."""
    points = {family: dict(pieces) for family, pieces in job.pieces.items()}
    for one in job.recorded:
        if one.placement.devices == 1 and one.placement.micro_batches == 1:
            points.setdefault(one.placement.family, {}).setdefault(one.placement.micro_batch, one.step_seconds)
    lines = {family: (sorted(found), [found[size] for size in sorted(found)]) for family, found in points.items()}

    def seconds(family: str, micro_batch: float) -> float:
        sizes, times = lines[family]
        return float(np.interp(micro_batch, sizes, times)) * min(1.0, max(micro_batch / sizes[0], 0.7))

    return seconds


def exchange_seconds(job: RecordedJob, one: Recorded, curve: Curve) -> float:
    """What of the step cannot be its pieces' compute; half hidden under it, as where the two add up in squares."""
    where = one.placement
    piece = curve(where.family, where.micro_batch)
    last = one.step_seconds - (where.micro_batches - 1) * piece
    return float(max(last**2 - piece**2, 0.0) ** 0.5) if where.devices > 1 else 0.0


def step_seconds(where: Placement, curve: Curve, exchange: float) -> float:
    """The step with other compute or another exchange."""
    piece = curve(where.family, where.micro_batch)
    return float((where.micro_batches - 1) * piece + (piece**2 + exchange**2) ** 0.5)


def retimed(job: RecordedJob, step: Callable[[Recorded], float], curve: Curve | None = None) -> RecordedJob:
    """The job with other step times; its pieces follow a curve of their own where one is given."""
    recorded = tuple(replace(one, step_seconds=step(one)) for one in job.recorded)
    pieces = job.pieces
    if curve is not None:
        pieces = {
            family: tuple((size, curve(family, size)) for size, _ in found) for family, found in job.pieces.items()
        }
    return replace(job, recorded=recorded, pieces=pieces)


def exchange(factor: float) -> Change:
    def change(job: RecordedJob, other: RecordedJob, rng: np.random.Generator) -> RecordedJob:
        curve = alone(job)
        return retimed(job, lambda one: step_seconds(one.placement, curve, factor * exchange_seconds(job, one, curve)))

    return change


def other_exchange(job: RecordedJob, other: RecordedJob, rng: np.random.Generator) -> RecordedJob:
    mine, theirs = alone(job), alone(other)
    scale = float(np.exp(rng.normal(0.0, 0.7)))
    found: dict[tuple[str, int], float] = {}
    for one in sorted(other.recorded, key=lambda each: -each.placement.batch):
        found[one.placement.instance, one.placement.nodes] = exchange_seconds(other, one, theirs)
    smallest = [min(each.placement.micro_batch for each in which.recorded) for which in (job, other)]

    beside = mine("t4", smallest[0]) / theirs("t4", smallest[1]) * scale

    def step(one: Recorded) -> float:
        where = one.placement
        return step_seconds(where, mine, beside * found.get((where.instance, where.nodes), 0.0))

    return retimed(job, step)


def little_memory(job: RecordedJob, other: RecordedJob, rng: np.random.Generator) -> RecordedJob:
    curve, rows = alone(job), []
    for one in job.recorded:
        where = replace(one.placement, micro_limit=max(one.placement.micro_limit / 8, 1.0))
        seconds = step_seconds(where, curve, exchange_seconds(job, one, curve))
        rows.append(replace(one, placement=where, step_seconds=seconds))
    limits = {one.placement.family: one.placement.micro_limit for one in rows}
    pieces = {
        family: tuple(each for each in found if each[0] <= limits[family]) or found[:1]
        for family, found in job.pieces.items()
    }
    return replace(job, recorded=tuple(rows), pieces=pieces)


def with_curve(job: RecordedJob, curve: Curve) -> RecordedJob:
    """The job with other compute, its exchange as it was."""
    old = alone(job)

    def step(one: Recorded) -> float:
        return step_seconds(one.placement, curve, exchange_seconds(job, one, old))

    return retimed(job, step, curve)


def cliff(job: RecordedJob, other: RecordedJob, rng: np.random.Generator) -> RecordedJob:
    old = alone(job)
    limits = {one.placement.family: one.placement.micro_limit for one in job.recorded}

    def curve(family: str, size: float) -> float:
        edge = limits[family] / 2
        return old(family, size) * (1.0 + 0.5 * max(size - edge, 0.0) / size)

    return with_curve(job, curve)


def other_gpus(job: RecordedJob, other: RecordedJob, rng: np.random.Generator) -> RecordedJob:
    factors = {family: float(np.exp(rng.normal(0.0, 0.4))) for family in sorted(job.families)}
    old = alone(job)
    return with_curve(job, lambda family, size: factors[family] * old(family, size))


def load(share: float) -> Change:
    def change(job: RecordedJob, other: RecordedJob, rng: np.random.Generator) -> RecordedJob:
        old = alone(job)
        limits = {one.placement.family: one.placement.micro_limit for one in job.recorded}

        def curve(family: str, size: float) -> float:
            whole = old(family, limits[family])
            return whole * ((1.0 - share) + share * size / limits[family])

        return with_curve(job, curve)

    return change


def resampled(job: RecordedJob, growth: Callable[[float], float]) -> RecordedJob:
    """The job with other samples to the target: a factor for each batch size beside the smallest."""
    base = job.work[0]
    needed = {work.batch: base.samples * growth(work.batch / base.batch) for work in job.work}
    return replace(job, recorded=tuple(replace(one, samples=needed[one.placement.batch]) for one in job.recorded))


def falling(job: RecordedJob, other: RecordedJob, rng: np.random.Generator) -> RecordedJob:
    return resampled(job, lambda times: 0.5 + 0.5 / times**0.5)


def steep(job: RecordedJob, other: RecordedJob, rng: np.random.Generator) -> RecordedJob:
    most = job.work[-1].batch / job.work[0].batch
    return resampled(job, lambda times: 1.0 + 3.0 * (times - 1.0) / (most - 1.0))


def scattered(job: RecordedJob, other: RecordedJob, rng: np.random.Generator) -> RecordedJob:
    most = job.work[-1].batch / job.work[0].batch
    return resampled(job, lambda times: (1.0 + (times - 1.0) / (most - 1.0)) * float(np.exp(rng.normal(0.0, 0.1))))


def odd_noise(job: RecordedJob, other: RecordedJob, rng: np.random.Generator) -> RecordedJob:
    return replace(job, first_noise={batch: batch * 10.0 ** rng.uniform(-2, 3) for batch in job.first_noise})


def little_noise(job: RecordedJob, other: RecordedJob, rng: np.random.Generator) -> RecordedJob:
    return replace(job, first_noise=dict.fromkeys(job.first_noise, job.work[0].batch / 100))


CHANGES: Mapping[str, Change] = {
    "as-recorded": lambda job, other, rng: job,
    "slow-exchange": exchange(5.0),
    "fast-exchange": exchange(0.2),
    "other-exchange": other_exchange,
    "little-memory": little_memory,
    "cliff": cliff,
    "other-gpus": other_gpus,
    "all-samples": load(0.9),
    "few-samples": load(0.1),
    "falling": falling,
    "steep": steep,
    "scattered": scattered,
    "odd-noise": odd_noise,
    "little-noise": little_noise,
}


def main(folder: str, seeds: int = 2) -> None:
    """Mean errors and coverage by change, over jobs and seeds."""
    jobs = read_jobs(Path(folder)).jobs
    learnt = {job.name: learn_job(job) for job in jobs}
    all_errors: dict[Mode, list[float]] = defaultdict(list)
    all_held: dict[Mode, list[float]] = defaultdict(list)
    print(f"{'':16}" + "".join(f"{mode.value:>24}" for mode in Mode) + "    (mean, worst job, in the interval)")
    for name, change in CHANGES.items():
        errors: dict[Mode, list[float]] = defaultdict(list)
        held: dict[Mode, list[float]] = defaultdict(list)
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            for at, job in enumerate(jobs):
                changed = change(job, jobs[(at + 1) % len(jobs)], rng)
                others = [learnt[other.name] for other in jobs if other is not job]
                for mode, predicted in predict_job(changed, others, seed).items():
                    errors[mode].append(mean(one.error for one in predicted))
                    held[mode].append(mean(one.covered for one in predicted))
        print(f"{name:16}" + "".join(_cell(errors[mode], held[mode]) for mode in Mode), flush=True)
        for mode in Mode:
            all_errors[mode] += errors[mode]
            all_held[mode] += held[mode]
    print(f"{'all':16}" + "".join(_cell(all_errors[mode], all_held[mode]) for mode in Mode))


def _cell(errors: list[float], held: list[float]) -> str:
    return f"{mean(errors):9.1%}{max(errors):8.1%}{mean(held):7.0%}"


if __name__ == "__main__":
    main(sys.argv[1], *(int(text) for text in sys.argv[2:3]))
