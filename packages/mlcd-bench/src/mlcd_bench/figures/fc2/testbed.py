"""A synthetic EC2 after the FC² paper's testbed (sections 7.1 and 7.2): one parameter server, workers of one type.

The paper's measurements are not public, so throughput is reckoned. The workers train asynchronously: each takes its own
batch of b samples, sends a gradient, fetches the parameters, and waits for no other worker. With n of them

    compute   c(b) = c₀ + b·c₁             of one worker: c₀ whatever the batch, c₁ for each sample
    exchange  s(n) = 32·P / B·(1 + κ·(n−1))    bits of a gradient over the server's B bits per second, and at the same time of
                                           the parameters the other way; flows that meet there are sent again: κ for
                                           each further worker
    steps     min(n / (c + s), 1 / s)      a second, all workers together: until the server's network is full they take
                                           turns and nobody waits; from then on the network alone counts

and throughput = b·steps. It rises in proportion, meets the server's network, and falls slowly, as in the paper's Fig. 8
to 20. A probe measures, besides the speed, what a worker receives: 32·P bits a step. P and B are the paper's, prices too (its tables 1 and 2: Singapore, August 2018). c₀, c₁ and κ are set by hand, so that
Scala-Opt comes to the clusters that the paper tells for a batch of each size, and the types rank as in its figures.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd_bench.cases import Case

PRICED_AT = "2018-08"
REGION = "ap-southeast-1"
PARAMETERS = 1_068_298  # P of TensorFlow's CIFAR-10 network: “more than a million”
CROWDING = 0.07  # κ
_BITS = 32 * PARAMETERS  # of a gradient, or of the parameters


@dataclass(frozen=True)
class ServerType:
    """A type that keeps the parameters."""

    usd_per_hour: float
    mbps: float  # B


@dataclass(frozen=True)
class WorkerType:
    """A type that trains."""

    usd_per_hour: float
    vcpus: int
    memory_gib: float
    step_seconds: float  # c₀
    sample_seconds: float  # c₁
    gpu: str = ""
    gpu_memory_gib: float = 0.0


SERVERS = {
    "m4.large": ServerType(0.125, 450.0),
    "m4.2xlarge": ServerType(0.5, 1_000.0),
    "m4.10xlarge": ServerType(2.5, 10_000.0),
}
WORKERS = {
    "m4.xlarge": WorkerType(0.25, 4, 16, 0.025, 0.00245),
    "t2.xlarge": WorkerType(0.2336, 4, 16, 0.025, 0.0014),
    "c4.xlarge": WorkerType(0.231, 4, 7.5, 0.025, 0.00225),
    "c4.8xlarge": WorkerType(1.848, 36, 60, 0.025, 0.0005),
    "p2.xlarge": WorkerType(1.718, 4, 61, 0.1, 0.0002, "K80", 12),
    "g3.4xlarge": WorkerType(1.67, 16, 122, 0.0325, 0.000185, "M60", 8),
}


def server_case(types: tuple[str, ...], server: str, batch: int, most_workers: int) -> Case:
    """CIFAR-10 with this batch for each worker, on clusters of one server and up to so many workers."""
    truth = tuple(
        (cluster(name, server, workers), throughput(name, server, batch, workers))
        for name in types
        for workers in range(1, most_workers + 1)
    )
    return Case("server-testbed", f"CIFAR-10 on {server}", batch, truth, received_bits=_BITS / batch)


def cluster(name: str, server: str, workers: int) -> Deployment:
    """So many workers and the server."""
    return Deployment(_worker_offer(name), workers + 1, servers=1, server_offer=_server_offer(server))


def _worker_offer(name: str) -> Offer:
    kind = WORKERS[name]
    return _offer(
        InstanceType(name, kind.vcpus, kind.memory_gib, int(bool(kind.gpu)), kind.gpu, kind.gpu_memory_gib),
        kind.usd_per_hour,
    )


def _server_offer(name: str) -> Offer:
    kind = SERVERS[name]
    return _offer(InstanceType(name, network_gbps=kind.mbps / 1e3), kind.usd_per_hour)


def _offer(instance: InstanceType, usd_per_hour: float) -> Offer:
    return Offer("ec2", instance, usd_per_hour, 100, REGION, priced_at=PRICED_AT, source="FC²")


def throughput(name: str, server: str, batch: int, workers: int) -> float:
    """Samples per second of all workers together."""
    kind = WORKERS[name]
    compute = kind.step_seconds + batch * kind.sample_seconds
    exchange = _BITS / (SERVERS[server].mbps * 1e6) * (1 + CROWDING * (workers - 1))
    return batch * min(workers / (compute + exchange), 1 / exchange)
