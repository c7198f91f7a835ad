"""Recorded gradient noise and step times, in CSV files that are recognised by their columns.

Gradient noise, one row for each epoch of one training (noise scale in samples):

    workload,batch_size,epoch,samples,noise_scale_samples
    bert,12,0,88644,422.966

Step times, one row for each number of GPUs and local batch (of one GPU) on one kind of GPU:

    workload,instance,nodes,gpus,local_batch,step_time_s,sync_time_s
    bert,t4,1,1,4,0.455324,0.0137386
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlcd.catalog.csv_rows import CsvRow, count, number, positive, read_columns, read_rows
from mlcd.errors import NotFoundError

NOISE_COLUMNS = ("workload", "batch_size", "epoch", "samples", "noise_scale_samples")
STEP_COLUMNS = ("workload", "instance", "nodes", "gpus", "local_batch", "step_time_s")


@dataclass(frozen=True)
class NoiseRecord:
    """The end of one epoch of a training at one batch size."""

    workload: str
    batch: int
    epoch: float
    samples: float  # since the training began
    noise_scale: float | None  # in samples; None: the estimate was no positive number


@dataclass(frozen=True)
class StepRecord:
    """The step time of one number of GPUs at one local batch."""

    workload: str
    instance: str  # the kind of GPU
    nodes: int
    gpus: int  # of all nodes together
    local_batch: int  # of one GPU
    step_seconds: float
    sync_seconds: float | None


def read_noise(folder: Path) -> tuple[NoiseRecord, ...]:
    """Gradient noise of all files in a folder that have its columns."""
    return tuple(_noise(row) for row in _rows(folder, NOISE_COLUMNS))


def read_step_times(folder: Path) -> tuple[StepRecord, ...]:
    """Step times of all files in a folder that have their columns."""
    return tuple(_step(row) for row in _rows(folder, STEP_COLUMNS))


def any_file_has(folder: Path, columns: Sequence[str]) -> bool:
    """Whether some CSV file in a folder has rows under these columns."""
    return next(_rows(folder, columns), None) is not None


def _noise(row: CsvRow) -> NoiseRecord:
    return NoiseRecord(
        workload=row.need("workload", str),
        batch=row.need("batch_size", count),
        epoch=row.need("epoch", number),
        samples=row.need("samples", positive),
        noise_scale=row.get("noise_scale_samples", _estimate),
    )


def _step(row: CsvRow) -> StepRecord:
    return StepRecord(
        workload=row.need("workload", str),
        instance=row.need("instance", str),
        nodes=row.need("nodes", count),
        gpus=row.need("gpus", count),
        local_batch=row.need("local_batch", count),
        step_seconds=row.need("step_time_s", positive),
        sync_seconds=row.get("sync_time_s", _estimate),
    )


def _rows(folder: Path, columns: Sequence[str]) -> Iterator[CsvRow]:
    """The rows of all files in a folder that have these columns."""
    if not folder.is_dir():
        raise NotFoundError(f"There is no folder at {folder}.")
    for file in sorted(folder.glob("*.csv")):
        if set(columns) <= set(read_columns(file)):
            yield from read_rows(file)


def _estimate(text: str) -> float | None:
    """A positive number; None where it is none, because estimates may fail."""
    try:
        return positive(text)
    except ValueError:
        return None
