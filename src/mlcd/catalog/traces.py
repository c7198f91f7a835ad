"""Recorded deployments: what others measured, in CSV files, so that a search can be replayed without paying.

One row is one deployment of one workload (global batch size; samples per second):

    workload,instance,nodes,batch,throughput,samples,usd_per_node_hour,status,gpus_per_node,vcpus_per_node,origin
    bert,a100x1,2,48,140.4,179136,2.7447,ok,1,,measured

Any column but those in REQUIRED may be missing, and a deployment may have been measured several times.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mlcd.catalog.csv_rows import CsvRow, count, positive, read_columns, read_rows
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.errors import NotFoundError, UserError, did_you_mean

REQUIRED = ("workload", "instance", "nodes", "throughput", "usd_per_node_hour", "status")


@dataclass(frozen=True)
class Recording:
    """One row of a trace: a deployment that was measured, or that failed."""

    workload: str
    instance: str
    nodes: int
    batch: int | None  # global; None: the workload has none
    throughput: float | None  # samples per second; None: it failed
    samples: float | None  # to finish the job at that batch size; None: not known
    usd_per_node_hour: float
    ok: bool
    gpus_per_node: int | None = None
    vcpus_per_node: float | None = None
    gib_per_node: float | None = None  # memory that a node needed, at its peak
    usd_per_gib_hour: float | None = None  # of that memory, on top of the node's price
    origin: str = ""


@dataclass(frozen=True)
class Workload:
    """A job with all its recorded deployments."""

    name: str
    trace: str  # stem of the file that it was read from
    recordings: tuple[Recording, ...]

    @cached_property
    def deployments(self) -> dict[Deployment, tuple[Recording, ...]]:
        """What was recorded of each deployment, in the order of the file."""
        offers = _offers(self.recordings)
        groups: dict[tuple[str, float, int, int | None], list[Recording]] = defaultdict(list)
        for row in self.recordings:
            groups[(row.instance, row.usd_per_node_hour, row.nodes, row.batch)].append(row)
        return {
            Deployment(offers[(instance, price)], nodes, batch, memory_gib=_memory_gib(rows)): tuple(rows)
            for (instance, price, nodes, batch), rows in groups.items()
        }

    @cached_property
    def offers(self) -> tuple[Offer, ...]:
        """What the deployments are made of."""
        return tuple({deployment.offer: None for deployment in self.deployments})

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes that were tried, ascending; empty where the workload has none."""
        return tuple(sorted({row.batch for row in self.recordings if row.batch is not None}))

    def throughput(self, deployment: Deployment) -> float | None:
        """Samples per second, the mean of the repeats that went well; None: it failed or was not recorded."""
        rates = [row.throughput for row in self.deployments.get(deployment, ()) if row.throughput is not None]
        return math.fsum(rates) / len(rates) if rates else None

    def samples(self, deployment: Deployment) -> float | None:
        """Samples that finish the job on this deployment; None: the trace does not know."""
        known = [row.samples for row in self.deployments.get(deployment, ()) if row.samples is not None]
        if known:
            return math.fsum(known) / len(known)
        return self.samples_at.get(deployment.batch_size)

    @cached_property
    def samples_at(self) -> dict[int | None, float]:
        """Batch size → samples that finish the job, where they are known."""
        # The work depends on the batch size alone, so a row that does not say it is helped by its neighbours.
        known: dict[int | None, list[float]] = defaultdict(list)
        for row in self.recordings:
            if row.samples is not None:
                known[row.batch].append(row.samples)
        return {batch: math.fsum(samples) / len(samples) for batch, samples in known.items()}


def find_workload(path: Path, name: str = "") -> Workload:
    """The workload of that name ('trace/name' where several files have it); without a name the only one."""
    workloads = read_workloads(path)
    found = [each for each in workloads if name in (each.name, f"{each.trace}/{each.name}")]
    if not name and len(workloads) == 1:
        return workloads[0]
    if not found:
        message = f"No workload of {path} is called '{name}'." if name else f"{path} has several workloads."
        raise NotFoundError(message, did_you_mean(name, {each.name for each in workloads}))
    if len(found) > 1:
        full = " or ".join(f"'{each.trace}/{each.name}'" for each in found)
        raise UserError(f"Several traces in {path} have a workload '{name}'.", f"Write {full}.")
    return found[0]


def read_workloads(path: Path) -> tuple[Workload, ...]:
    """All workloads of a trace, or of all traces in a folder; its CSV files with other columns are skipped."""
    if not path.exists():
        raise NotFoundError(f"There is no trace at {path}.")
    if path.is_dir():
        files = [file for file in sorted(path.glob("*.csv")) if not _missing_columns(file)]
        if not files:
            raise UserError(f"No CSV file in {path} is a trace.", f"A trace has the columns {_named(REQUIRED)}.")
        return tuple(workload for file in files for workload in _read_file(file))
    if missing := _missing_columns(path):
        raise UserError(
            f"{path} is not a trace: no column {_named(missing)}.",
            f"A trace has the columns {_named(REQUIRED)}.",
        )
    return _read_file(path)


def _read_file(file: Path) -> tuple[Workload, ...]:
    rows: dict[str, list[Recording]] = defaultdict(list)
    for recording in map(_recording, read_rows(file)):
        rows[recording.workload].append(recording)
    if not rows:
        raise UserError(f"{file} has no rows.")
    return tuple(Workload(name, file.stem, tuple(recordings)) for name, recordings in rows.items())


def _recording(row: CsvRow) -> Recording:
    ok = row.need("status", _status)
    return Recording(
        workload=row.need("workload", str),
        instance=row.need("instance", str),
        nodes=row.need("nodes", count),
        batch=row.get("batch", count),
        # What a failed run was seen to do before it failed says nothing of the job.
        throughput=row.need("throughput", positive) if ok else None,
        samples=row.get("samples", positive),
        usd_per_node_hour=row.need("usd_per_node_hour", positive),
        ok=ok,
        gpus_per_node=row.get("gpus_per_node", _count_or_zero),
        vcpus_per_node=row.get("vcpus_per_node", positive),
        gib_per_node=row.get("gib_per_node", positive),
        usd_per_gib_hour=row.get("usd_per_gib_hour", positive),
        origin=row.get("origin", str) or "",
    )


def _count_or_zero(text: str) -> int:
    return 0 if text in ("0", "0.0") else count(text)


def _status(text: str) -> bool:
    if text.lower() not in ("ok", "failed"):
        raise ValueError("'ok' or 'failed'")
    return text.lower() == "ok"


def _missing_columns(file: Path) -> list[str]:
    columns = read_columns(file)
    return [column for column in REQUIRED if column not in columns]


def _offers(recordings: Iterable[Recording]) -> dict[tuple[str, float], Offer]:
    """One offer for each instance at each price."""
    groups: dict[tuple[str, float], list[Recording]] = defaultdict(list)
    for row in recordings:
        groups[(row.instance, row.usd_per_node_hour)].append(row)
    prices: dict[str, int] = defaultdict(int)
    for instance, _ in groups:
        prices[instance] += 1
    # Deployments are told apart by name and region, so one kind at two prices is sold in two places.
    return {
        (instance, price): _offer(instance, price, rows, f"usd{price:g}" if prices[instance] > 1 else "")
        for (instance, price), rows in groups.items()
    }


def _offer(instance: str, price: float, rows: list[Recording], region: str) -> Offer:
    vcpus = next((row.vcpus_per_node for row in rows if row.vcpus_per_node is not None), 0.0)
    gpus = next((row.gpus_per_node for row in rows if row.gpus_per_node is not None), 0)
    memory = max((row.gib_per_node for row in rows if row.gib_per_node is not None), default=0.0)
    per_gib = next((row.usd_per_gib_hour for row in rows if row.usd_per_gib_hour is not None), 0.0)
    kind = InstanceType(instance, vcpus=vcpus, memory_gib=memory if per_gib else 0.0, gpus=gpus)
    most = max(row.nodes for row in rows)
    return Offer("replay", kind, price, most, region=region, source="trace", usd_per_gib_hour=per_gib)


def _memory_gib(rows: Iterable[Recording]) -> float:
    """What each node needed where memory is paid for; 0: nothing is recorded of it."""
    return max((row.gib_per_node for row in rows if row.gib_per_node and row.usd_per_gib_hour), default=0.0)


def _named(columns: Iterable[str]) -> str:
    return ", ".join(f"'{column}'" for column in columns)
