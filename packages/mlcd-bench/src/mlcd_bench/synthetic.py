"""Workloads that nobody has looked at: random, realistic scaling surfaces as a trace named `synthetic:SEED`.

A workload has 4 to 60 instance types on 1 to 50 nodes, prices up to a thousand times apart, some deployments
that run out of memory, and one of three ways of exchanging gradients. One step of n nodes on a global batch of
B samples takes

    t(n, B) = fixed + ⌈B/n⌉·compute·(1 + knee·n/B) + exchange(n)        seconds
    exchange = 2·(n−1)/n · model/bandwidth + n·latency                  ring all-reduce
             = n · model/(bandwidth·servers)                            parameter servers
             = work that does not divide (Amdahl) and spills when the nodes together are short of memory

and throughput = B / t, times a quirk of each type and a small one of each deployment that no model explains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mlcd.catalog.traces import Recording, Workload

WORKLOADS = 8  # of one synthetic trace
_NODE_CHOICES = (
    tuple(range(1, 51)),
    (1, 2, 3, 4, 6, 8, 12, 16, 24, 32),
    (1, 2, 4, 8, 16),
    tuple(range(1, 17)),
)
_TYPE_CHOICES = (60, 24, 12, 8, 4)
_EXCHANGES = ("ring", "servers", "amdahl")


@dataclass(frozen=True)
class _Machine:
    name: str
    usd_per_hour: float
    compute: float  # samples per second of one node, far from its knee
    bandwidth: float  # bytes per second
    memory: float  # bytes
    gpus: int
    vcpus: int


@dataclass(frozen=True)
class _Program:
    exchange: str
    batches: tuple[int, ...]  # one: the workload has no batch size to choose
    model: float  # bytes
    sample_memory: float  # bytes
    knee: float  # samples per node where half the speed is lost
    fixed: float  # seconds of a step
    latency: float  # seconds of a node in a step
    servers: int
    serial: float  # share of the work that does not divide
    critical_batch: float  # above it more samples are needed (gradient noise)


def synthetic_workloads(seed: int) -> tuple[Workload, ...]:
    """The workloads of a seed, the same everywhere."""
    return tuple(_workload(seed, index) for index in range(WORKLOADS))


def _workload(seed: int, index: int) -> Workload:
    rng = np.random.default_rng([seed, index])
    # Every trace has the largest space and the smallest; what else it has is up to the seed.
    types = _TYPE_CHOICES[index] if index < len(_TYPE_CHOICES) else int(rng.choice(_TYPE_CHOICES))
    nodes = _NODE_CHOICES[0] if index == 0 else _NODE_CHOICES[int(rng.integers(len(_NODE_CHOICES)))]
    machines = [_machine(rng, number) for number in range(types)]
    program = _program(rng, one_batch=index % 2 == 0 or types > 12)
    name = f"{program.exchange}-{types}x{max(nodes)}-{index}"
    return Workload(name, f"synthetic-{seed}", tuple(_recordings(rng, name, program, machines, nodes)))


def _machine(rng: np.random.Generator, number: int) -> _Machine:
    """Dearer machines are faster, but not in step: that is what makes a search worth its price."""
    usd = float(10.0 ** rng.uniform(-1.5, 1.5))
    gpus = int(rng.choice((1, 2, 4, 8))) if usd > 0.4 and rng.random() < 0.6 else 0
    value = rng.lognormal(0.0, 0.5) * (2.0 if gpus else 1.0)
    return _Machine(
        name=f"{'g' if gpus else 'c'}{number}",
        usd_per_hour=round(usd, 4),
        compute=float(100.0 * value * usd ** rng.uniform(0.8, 1.05)),
        bandwidth=float(1e8 * rng.choice((1.0, 2.5, 5.0, 10.0, 25.0)) * max(1.0, usd) ** 0.5),
        memory=float(8e9 * max(1.0, usd) ** 0.7 * rng.choice((1.0, 2.0, 4.0))),
        gpus=gpus,
        vcpus=max(1, round(8 * usd**0.7)),
    )


def _program(rng: np.random.Generator, one_batch: bool) -> _Program:
    smallest = int(2 ** rng.integers(4, 9))
    steps = 1 if one_batch else int(rng.integers(3, 6))
    return _Program(
        exchange=str(rng.choice(_EXCHANGES)),
        batches=tuple(smallest * 4**step for step in range(steps)) if steps > 1 else (smallest * 8,),
        model=float(10.0 ** rng.uniform(6.5, 9.7)),
        sample_memory=float(10.0 ** rng.uniform(6.0, 8.7)),
        knee=float(rng.uniform(0.0, 8.0)),
        fixed=float(10.0 ** rng.uniform(-3.0, -1.0)),
        latency=float(10.0 ** rng.uniform(-4.0, -2.0)),
        servers=int(rng.choice((1, 2, 4, 8))),
        serial=float(rng.uniform(0.0, 0.1)),
        critical_batch=float(smallest * 10.0 ** rng.uniform(0.5, 2.0)),
    )


def _recordings(
    rng: np.random.Generator, name: str, program: _Program, machines: list[_Machine], nodes: tuple[int, ...]
) -> Iterator[Recording]:
    for machine in machines:
        quirk = rng.lognormal(0.0, 0.15)
        for count in nodes:
            for batch in program.batches:
                speed = _speed(program, machine, count, batch) * quirk * rng.lognormal(0.0, 0.04)
                ok = _fits(program, machine, count, batch)
                yield Recording(
                    workload=name,
                    instance=machine.name,
                    nodes=count,
                    batch=batch if len(program.batches) > 1 else None,
                    throughput=float(speed) if ok else None,
                    samples=1e6 * (1.0 + batch / program.critical_batch),
                    usd_per_node_hour=machine.usd_per_hour,
                    ok=ok,
                    gpus_per_node=machine.gpus,
                    vcpus_per_node=machine.vcpus,
                    origin="synthetic",
                )


def _speed(program: _Program, machine: _Machine, nodes: int, batch: int) -> float:
    share = batch / nodes
    compute = (np.ceil(share) + program.knee) / machine.compute
    return float(batch / (program.fixed + compute + _exchange(program, machine, nodes, batch)))


def _exchange(program: _Program, machine: _Machine, nodes: int, batch: int) -> float:
    if program.exchange == "ring":
        return 2 * (nodes - 1) / nodes * program.model / machine.bandwidth + (nodes - 1) * program.latency
    if program.exchange == "servers":
        return (nodes - 1) * program.model / (machine.bandwidth * program.servers)
    spill = max(0.0, 2e10 / (machine.memory * nodes) - 1.0)
    return batch / machine.compute * (program.serial + 0.2 * spill / nodes)


def _fits(program: _Program, machine: _Machine, nodes: int, batch: int) -> bool:
    return bool(4 * program.model + np.ceil(batch / nodes) * program.sample_memory <= machine.memory)
