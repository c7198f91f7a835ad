"""Writes trace.csv: deployments of a made-up image classifier, by a formula, to practise planning on.

Nothing here was measured. One step of n nodes on a global batch of B samples takes

    t(n, B) = B/n · compute · (1 + knee·n/B) + 2·(n−1)/n · model/bandwidth + n·latency     seconds

which has what real trainings have: small batches waste a machine, and each further node adds less.
"""

from __future__ import annotations

import csv
import sys
from typing import NamedTuple, TextIO

COLUMNS = (
    "workload,instance,nodes,batch,throughput,samples,usd_per_node_hour,status,gpus_per_node,vcpus_per_node,origin"
)
MODEL_BYTES = 100e6
LATENCY_SECONDS = 0.002
KNEE_SAMPLES = 24.0  # samples on a node where half its speed is lost
NODES = (1, 2, 3, 4, 6, 8, 12, 16)
SAMPLES_AT = {128: 12_000_000, 256: 12_400_000, 512: 13_600_000, 1024: 16_800_000}  # larger batches need more


class Machine(NamedTuple):
    """A kind of machine that nobody sells."""

    name: str
    usd_per_hour: float
    samples_per_second: float  # of one node at its best
    bandwidth: float  # bytes per second
    most_samples: int  # of one node's share of the batch, before its memory is full
    gpus: int
    vcpus: int


MACHINES = (
    Machine("cpu16", 0.60, 60.0, 1.2e9, 4096, 0, 16),
    Machine("gpu-small", 0.55, 260.0, 0.6e9, 256, 1, 4),
    Machine("gpu-large", 3.10, 1100.0, 1.2e9, 512, 1, 8),
    Machine("gpu-large-x4", 11.80, 4000.0, 3.0e9, 2048, 4, 32),
)


def main(out: TextIO) -> None:
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS.split(","))
    for machine in MACHINES:
        for nodes in NODES:
            for batch in SAMPLES_AT:
                rows.writerow(row(machine, nodes, batch))


def row(machine: Machine, nodes: int, batch: int) -> list[object]:
    fits = batch / nodes <= machine.most_samples
    rate = f"{throughput(machine, nodes, batch):.1f}" if fits else ""
    status = "ok" if fits else "failed"
    facts = [machine.usd_per_hour, status, machine.gpus, machine.vcpus, "formula"]
    return ["images", machine.name, nodes, batch, rate, SAMPLES_AT[batch], *facts]


def throughput(machine: Machine, nodes: int, batch: int) -> float:
    compute = batch / nodes / machine.samples_per_second * (1.0 + KNEE_SAMPLES * nodes / batch)
    exchange = 2.0 * (nodes - 1) / nodes * MODEL_BYTES / machine.bandwidth + nodes * LATENCY_SECONDS
    return batch / (compute + exchange)


if __name__ == "__main__":
    main(sys.stdout)
