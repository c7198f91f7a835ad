"""A folder of recordings as jobs whose every deployment and true training time is known."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from mlcd.catalog.traces import REQUIRED, Workload, read_workloads
from mlcd.errors import UserError
from mlcd.forecast.parallel import Placement
from mlcd.forecast.statistical import Work
from mlcd_bench.models.measurements import NoiseRecord, StepRecord, any_file_has, read_noise, read_step_times

R = TypeVar("R", NoiseRecord, StepRecord)


@dataclass(frozen=True)
class Recorded:
    """A deployment at a batch size, with what it truly took."""

    placement: Placement
    step_seconds: float
    samples: float  # to the target, at its batch size
    usd_per_hour: float  # of one node
    origin: str

    @property
    def training_seconds(self) -> float:
        """Samples to the target ÷ batch size × step time (equations 3 and 4)."""
        return self.samples / self.placement.batch * self.step_seconds


@dataclass(frozen=True)
class RecordedJob:
    """A job with all that was recorded of it."""

    name: str
    recorded: tuple[Recorded, ...]
    first_noise: Mapping[int, float]  # batch size → noise scale in the first epoch
    pieces: Mapping[str, tuple[tuple[float, float], ...]]  # family → (local batch, seconds) on one GPU

    @property
    def work(self) -> tuple[Work, ...]:
        """Samples to the target at every batch size, ascending."""
        known = {one.placement.batch: one.samples for one in self.recorded}
        return tuple(Work(batch, known[batch]) for batch in sorted(known))

    @property
    def families(self) -> dict[str, tuple[Recorded, ...]]:
        """The recordings by family."""
        groups: dict[str, list[Recorded]] = defaultdict(list)
        for one in self.recorded:
            groups[one.placement.family].append(one)
        return {family: tuple(rows) for family, rows in groups.items()}


@dataclass(frozen=True)
class RecordedFolder:
    """The jobs of a folder, and what of it could not be used."""

    jobs: tuple[RecordedJob, ...]
    notices: tuple[str, ...]


def read_jobs(folder: Path) -> RecordedFolder:
    """The jobs of a folder of which both gradient noise and speeds are recorded."""
    noise, steps = _by_workload(read_noise(folder)), _by_workload(read_step_times(folder))
    if not noise:
        raise UserError(f"No CSV file in {folder} has gradient noise.", "It is known by its columns.")
    traces = _traces(folder)
    jobs, notices = [], []
    for name in noise:
        rows = [row for trace in traces.get(name, []) for row in _from_trace(trace, noise[name])]
        rows = rows or _from_steps(steps.get(name, []), noise[name])
        if not rows:
            notices.append(f"{name}: gradient noise, but no step time at a batch size with known samples")
            continue
        jobs.append(_job(name, rows, noise[name], steps.get(name, [])))
    if not jobs:
        raise UserError(f"No job in {folder} has both gradient noise and step times.")
    return RecordedFolder(tuple(jobs), tuple(notices))


def _traces(folder: Path) -> dict[str, list[Workload]]:
    """The recorded deployments by job; several files may have the same job."""
    groups: dict[str, list[Workload]] = defaultdict(list)
    if any_file_has(folder, REQUIRED):
        for workload in read_workloads(folder):
            groups[workload.name].append(workload)
    return groups


def _from_trace(workload: Workload, noise: Sequence[NoiseRecord]) -> list[Recorded]:
    """One recording for each deployment that went well, repeats averaged."""
    trained = _samples_trained(noise)
    rows = []
    for deployment, recordings in workload.deployments.items():
        batch, rate = deployment.batch_size, workload.throughput(deployment)
        samples = workload.samples(deployment) or trained.get(batch or 0)
        if batch is None or rate is None or samples is None:
            continue
        gpus = max(deployment.offer.instance.gpus, 1)
        name = deployment.offer.instance.name
        placement = Placement(family_of(name, gpus), name, deployment.nodes, gpus, batch)
        rows.append(Recorded(placement, batch / rate, samples, deployment.offer.usd_per_hour, recordings[0].origin))
    return rows


def _from_steps(steps: Sequence[StepRecord], noise: Sequence[NoiseRecord]) -> list[Recorded]:
    """Without a trace: every step time at a batch size between those that were trained to the target."""
    trained = sorted(_samples_trained(noise).items())
    batches, samples = [batch for batch, _ in trained], [samples for _, samples in trained]
    rows = []
    for step in steps:
        batch, gpus = step.local_batch * step.gpus, step.gpus // step.nodes
        if batches[0] <= batch <= batches[-1] and gpus * step.nodes == step.gpus:
            placement = Placement(step.instance, f"{step.instance}x{gpus}", step.nodes, gpus, batch)
            needed = float(np.interp(batch, batches, samples))
            rows.append(Recorded(placement, step.step_seconds, needed, 1.0 * gpus, "measured"))
    return rows


def _job(name: str, rows: Sequence[Recorded], noise: Sequence[NoiseRecord], steps: Sequence[StepRecord]) -> RecordedJob:
    limits = _micro_limits(rows, steps)
    placed = tuple(
        replace(row, placement=replace(row.placement, micro_limit=limits[row.placement.family])) for row in rows
    )
    return RecordedJob(name, placed, _first_noise(noise), _pieces(steps))


def family_of(instance: str, gpus: int) -> str:
    """The kind of GPU, where the instance's name is kind × count, as in t4x4; else the instance itself."""
    return instance.removesuffix(f"x{gpus}")


def _micro_limits(rows: Iterable[Recorded], steps: Iterable[StepRecord]) -> dict[str, float]:
    """Family → the largest local batch that was run in one piece: what a GPU is known to hold."""
    limits: dict[str, float] = defaultdict(float)
    for row in rows:
        whole = row.placement.local_batch if row.origin != "accumulated" else 0.0
        limits[row.placement.family] = max(limits[row.placement.family], whole)
    for step in steps:
        if step.instance in limits:
            limits[step.instance] = max(limits[step.instance], float(step.local_batch))
    return {family: limit or math.inf for family, limit in limits.items()}


def _samples_trained(noise: Iterable[NoiseRecord]) -> dict[int, float]:
    """Batch size → samples at the end of its training."""
    last: dict[int, float] = {}
    for record in noise:
        last[record.batch] = max(last.get(record.batch, 0.0), record.samples)
    return last


def _first_noise(noise: Iterable[NoiseRecord]) -> dict[int, float]:
    first: dict[int, float] = {}
    for record in sorted(noise, key=lambda record: record.epoch):
        if record.noise_scale is not None:
            first.setdefault(record.batch, record.noise_scale)
    return first


def _pieces(steps: Iterable[StepRecord]) -> dict[str, tuple[tuple[float, float], ...]]:
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for step in steps:
        if step.gpus == 1:
            found[step.instance].append((float(step.local_batch), step.step_seconds))
    return {family: tuple(sorted(pieces)) for family, pieces in found.items()}


def _by_workload(records: Iterable[R]) -> dict[str, list[R]]:
    groups: dict[str, list[R]] = defaultdict(list)
    for record in records:
        groups[record.workload].append(record)
    return dict(groups)
