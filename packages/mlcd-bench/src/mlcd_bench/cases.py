"""What is searched in a benchmark: the deployments of a workload at one batch size, or at all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

from mlcd.catalog.traces import Workload, read_workloads
from mlcd.core.machines import Deployment
from mlcd.core.trial import FailureKind
from mlcd.errors import UserError
from mlcd_bench.synthetic import synthetic_workloads

FEWEST_DEPLOYMENTS = 20  # of a batch size that is searched by itself

Batch = int | str | None  # one batch size, "all" together, or none at all


@dataclass(frozen=True)
class Case:
    """A search space with the truth about every deployment in it."""

    trace: str
    workload: str
    batch: Batch
    truth: tuple[tuple[Deployment, float | None], ...]  # samples per second; None: it fails
    samples: tuple[tuple[int | None, float], ...] = ()  # batch size → samples of the trace's own job
    failing: FailureKind = FailureKind.CRASHED  # why what fails does; a trace does not say
    received_bits: float = 0.0  # by a worker for each sample that it trains; 0: nobody measures it

    @property
    def name(self) -> str:
        """How the case is called in tables and messages."""
        batch = "" if self.batch is None else f" (batch {self.batch})"
        return f"{self.trace}/{self.workload}{batch}"

    @cached_property
    def space(self) -> tuple[Deployment, ...]:
        """Everything that may be tried, whether it works or not."""
        return tuple(deployment for deployment, _ in self.truth)

    @cached_property
    def speeds(self) -> dict[Deployment, float]:
        """True samples per second of the deployments that work."""
        return {deployment: speed for deployment, speed in self.truth if speed is not None}

    def relative_work(self, deployment: Deployment) -> float:
        """Samples of the trace's own job at this batch size, or 1 where the trace does not say."""
        return dict(self.samples).get(deployment.batch_size, 1.0)


def read_cases(traces: Iterable[str]) -> tuple[Case, ...]:
    """The cases of CSV files, folders of them, and `synthetic:SEED` traces; those where nothing works are left out."""
    workloads = [workload for trace in traces for workload in _read(trace)]
    cases = tuple(case for workload in workloads for case in cases_of(workload) if case.speeds)
    if not cases:
        raise UserError("No workload in these traces has a deployment that works.")
    return cases


def cases_of(workload: Workload) -> tuple[Case, ...]:
    """The workload at every batch size with enough deployments, and once with all of them together."""
    if len(workload.batches) <= 1:
        batch = workload.batches[0] if workload.batches else None
        return (_case(workload, batch, workload.deployments),)
    alone = [
        _case(workload, batch, deployments)
        for batch in workload.batches
        if len(deployments := _at_batch(workload, batch)) >= FEWEST_DEPLOYMENTS
    ]
    return (*alone, _case(workload, "all", workload.deployments))


def _read(trace: str) -> tuple[Workload, ...]:
    kind, _, seed = trace.partition(":")
    if kind != "synthetic":
        return read_workloads(Path(trace))
    if not seed.isdigit():
        raise UserError(f"'{trace}' names no synthetic trace.", "Write a seed, for example synthetic:7.")
    return synthetic_workloads(int(seed))


def _at_batch(workload: Workload, batch: int) -> list[Deployment]:
    return [deployment for deployment in workload.deployments if deployment.batch_size == batch]


def _case(workload: Workload, batch: Batch, deployments: Iterable[Deployment]) -> Case:
    # In the order of the trace, so that a space is the same in every process.
    space = tuple(deployments)
    truth = tuple((deployment, workload.throughput(deployment)) for deployment in space)
    return Case(workload.trace, workload.name, batch, truth, _samples(workload, space))


def _samples(workload: Workload, space: Iterable[Deployment]) -> tuple[tuple[int | None, float], ...]:
    """The trace's own job at each batch size; empty where it does not say it for all of them."""
    known: dict[int | None, list[float]] = {}
    for deployment in space:
        samples = workload.samples(deployment)
        known.setdefault(deployment.batch_size, []).extend([] if samples is None else [samples])
    works = {batch for batch, found in known.items() if found}
    needed = {deployment.batch_size for deployment in space if workload.throughput(deployment) is not None}
    if not needed <= works:
        return ()
    return tuple((batch, median(found)) for batch, found in known.items() if found)
