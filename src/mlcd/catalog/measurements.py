"""Recorded gradient noise and step times: CSV files that are told apart by their columns, not their names.

Gradient noise, one row for each epoch of one training (noise scale in samples; iterations and metric are kept
by others who need them):

    workload,batch_size,epoch,samples,noise_scale_samples
    bert,12,0,88644,422.966

Step times, one row for each number of GPUs and local batch (of one GPU) on one kind of GPU:

    workload,instance,nodes,gpus,local_batch,step_time_s,sync_time_s
    bert,t4,1,1,4,0.455324,0.0137386
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mlcd.errors import NotFoundError, UserError

NOISE_COLUMNS = ("workload", "batch_size", "epoch", "samples", "noise_scale_samples")
STEP_COLUMNS = ("workload", "instance", "nodes", "gpus", "local_batch", "step_time_s")

T = TypeVar("T")


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


def _noise(row: _Line) -> NoiseRecord:
    return NoiseRecord(
        workload=row.cell("workload", str),
        batch=row.cell("batch_size", _count),
        epoch=row.cell("epoch", float),
        samples=row.cell("samples", _positive),
        noise_scale=row.optional("noise_scale_samples"),
    )


def _step(row: _Line) -> StepRecord:
    return StepRecord(
        workload=row.cell("workload", str),
        instance=row.cell("instance", str),
        nodes=row.cell("nodes", _count),
        gpus=row.cell("gpus", _count),
        local_batch=row.cell("local_batch", _count),
        step_seconds=row.cell("step_time_s", _positive),
        sync_seconds=row.optional("sync_time_s"),
    )


@dataclass(frozen=True)
class _Line:
    """One line of a file by column, read with errors that say where they are."""

    file: Path
    number: int
    cells: dict[str, str]

    def cell(self, column: str, read: Callable[[str], T]) -> T:
        text = self.cells.get(column, "")
        try:
            return read(text)
        except ValueError as error:
            where = f"{self.file}, line {self.number}, column '{column}'"
            raise UserError(f"{where}: '{text}' is not a number that fits there.") from error

    def optional(self, column: str) -> float | None:
        """A positive number; None where the cell is blank, no number, or not positive: estimates may fail."""
        try:
            return _positive(self.cells.get(column, ""))
        except ValueError:
            return None


def _rows(folder: Path, columns: Sequence[str]) -> Iterator[_Line]:
    if not folder.is_dir():
        raise NotFoundError(f"There is no folder at {folder}.")
    for file in sorted(folder.glob("*.csv")):
        try:
            yield from _lines_of(file, columns)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"{file} cannot be read as CSV: {error}.") from error


def _lines_of(file: Path, columns: Sequence[str]) -> Iterator[_Line]:
    with file.open(encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text)
        names = [name.strip() for name in next(reader, [])]
        if not set(columns) <= set(names):
            return
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield _Line(file, reader.line_num, dict(zip(names, map(str.strip, cells), strict=False)))


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError(text)
    return number


def _count(text: str) -> int:
    number = _positive(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)
