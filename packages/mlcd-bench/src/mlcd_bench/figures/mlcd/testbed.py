"""A synthetic EC2 after the MLCD paper's testbed (section V.A): its machines, its models, and how fast they train.

The paper's measurements are not public, so throughput is reckoned. With strong scaling (the global batch b is fixed)
a step on n nodes with g devices each takes

    compute   F·b / (n·g·R·e(l))         F operations of a sample, forward and backward; R of a device per second;
                                         l = b/(n·g) samples on a device, e(l) = l/(l + knee): small shares saturate
                                         no device
    exchange  2·n·4P / (s·B) + n·λ       parameter server: P parameters of four bytes, s = min(n, 8) servers among the
                                         workers, B bytes per second of a node, λ seconds to serve a worker
              2·(n−1)/n·4P / B + 2·(n−1)·λ    ring all-reduce
    step      compute·(1 + σ·ln n) + exchange     the slowest of n nodes is waited for

and throughput = b / step, times a quirk of ±8 % for each instance type that no such model would know. The curves are
concave in n, as the paper's Fig. 3 and 9: they rise, saturate and fall. A model with its optimiser that does not fit
the devices fails; from 1 B parameters on it is partitioned over all nodes (ZeRO).

Prices are AWS list prices for Linux on demand in us-east-1 as of 2020-02-18, the day the paper looked at its sources.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.trial import FailureKind
from mlcd_bench.cases import Case

PRICED_AT = "2020-02-18"
CPU_NODES, GPU_NODES = 100, 50
SERVE_SECONDS = 0.004  # λ of a parameter server
HOP_SECONDS = 0.0005  # λ of a ring
STRAGGLING = 0.04  # σ
SERVERS = 8
QUIRK = 0.08
PARTITIONED_FROM = 1e9  # parameters
STATE_BYTES = 16  # of a parameter: weights, gradient and optimiser

# name: $/h, vCPUs, memory GiB, GPUs, sustained network Gbit/s
_MACHINES = {
    "c5.xlarge": (0.17, 4, 8, 0, 1.25),
    "c5.2xlarge": (0.34, 8, 16, 0, 2.5),
    "c5.4xlarge": (0.68, 16, 32, 0, 5.0),
    "c5.9xlarge": (1.53, 36, 72, 0, 10.0),
    "c5.18xlarge": (3.06, 72, 144, 0, 25.0),
    "c5n.xlarge": (0.216, 4, 10.5, 0, 5.0),
    "c5n.2xlarge": (0.432, 8, 21, 0, 10.0),
    "c5n.4xlarge": (0.864, 16, 42, 0, 15.0),
    "c5n.9xlarge": (1.944, 36, 96, 0, 50.0),
    "c5n.18xlarge": (3.888, 72, 192, 0, 100.0),
    "c4.xlarge": (0.199, 4, 7.5, 0, 0.75),
    "c4.2xlarge": (0.398, 8, 15, 0, 1.0),
    "c4.4xlarge": (0.796, 16, 30, 0, 2.0),
    "c4.8xlarge": (1.591, 36, 60, 0, 10.0),
    "p2.xlarge": (0.90, 4, 61, 1, 1.25),
    "p2.8xlarge": (7.20, 32, 488, 8, 10.0),
    "p3.2xlarge": (3.06, 8, 61, 1, 2.5),
    "p3.8xlarge": (12.24, 32, 244, 4, 10.0),
    "p3.16xlarge": (24.48, 64, 488, 8, 25.0),
}
# Operations per second that a framework reaches on large shares of a batch.
_VCPU_FLOPS = {"c5": 25e9, "c5n": 25e9, "c4": 17e9}
_GPU = {"p2": ("K80", 12.0, 1.6e12), "p3": ("V100", 16.0, 8e12)}  # model, GiB, operations per second


@dataclass(frozen=True)
class Model:
    """A model to train, as the paper names it."""

    name: str
    parameters: float
    flops: float  # of a sample, forward and backward
    batch: int  # global
    exchange: str = "servers"  # or "ring"
    gpu_knee: float = 4.0  # samples on a GPU at which half its speed is reached
    gpu_share: float = 1.0  # of a GPU's speed; small images and a recurrent network's small steps leave it idle


ALEXNET = Model("AlexNet/CIFAR-10", 6.4e6, 0.4e9, 1024)
RESNET = Model("ResNet/CIFAR-10", 60.3e6, 16e9, 1024, gpu_share=0.1)
INCEPTION = Model("Inception-v3/ImageNet", 23.8e6, 17e9, 512)
CHAR_RNN = Model("Char-RNN", 12e6, 6e9, 512, gpu_knee=16.0, gpu_share=0.12)
BERT_TENSORFLOW = Model("BERT/TensorFlow", 340e6, 260e9, 256, exchange="ring", gpu_knee=1.0)
BERT_MXNET = replace(BERT_TENSORFLOW, name="BERT/MXNet", flops=240e9, gpu_knee=1.5)
ZERO_8B = Model("ZeRO 8B", 8e9, 6 * 8e9 * 1024, 512, exchange="ring", gpu_knee=0.5)
ZERO_20B = Model("ZeRO 20B", 20e9, 6 * 20e9 * 1024, 512, exchange="ring", gpu_knee=0.5)


def paper_case(model: Model, types: tuple[str, ...] = ()) -> Case:
    """The model on all machines of the testbed, or on these alone."""
    names = types or tuple(_MACHINES)
    truth = tuple(
        (deployment, _throughput(model, deployment)) for name in names for deployment in _deployments(_offer(name))
    )
    return Case("paper-testbed", model.name, None, truth, failing=FailureKind.OUT_OF_MEMORY)


def better_half(case: Case) -> tuple[str, ...]:
    """The instance types that can give most for a dollar, as someone with experience would name them."""
    best: dict[str, float] = {}
    for deployment, speed in case.speeds.items():
        name = deployment.offer.instance.name
        best[name] = max(best.get(name, 0.0), speed / deployment.usd_per_hour)
    return tuple(sorted(best, key=best.__getitem__)[len(best) // 2 :])


def _offer(name: str) -> Offer:
    usd, vcpus, memory, gpus, network = _MACHINES[name]
    gpu_model, gpu_memory, _ = _GPU.get(_family(name), ("", 0.0, 0.0))
    instance = InstanceType(name, vcpus, memory, gpus, gpu_model, gpu_memory, network)
    most = GPU_NODES if gpus else CPU_NODES
    return Offer("ec2", instance, usd, most, "us-east-1", priced_at=PRICED_AT, source="AWS list price")


def _deployments(offer: Offer) -> tuple[Deployment, ...]:
    return tuple(Deployment(offer, nodes) for nodes in range(1, offer.max_nodes + 1))


def _throughput(model: Model, deployment: Deployment) -> float | None:
    if not _fits(model, deployment):
        return None
    nodes = deployment.nodes
    compute = _compute_seconds(model, deployment) * (1.0 + STRAGGLING * log(nodes))
    exchange = _exchange_seconds(model, deployment) if nodes > 1 else 0.0
    return model.batch / (compute + exchange) * _quirk(model, deployment.offer.instance.name)


def _compute_seconds(model: Model, deployment: Deployment) -> float:
    instance = deployment.offer.instance
    devices = deployment.nodes * max(1, instance.gpus)
    share = model.batch / devices
    if instance.gpus:
        speed = _GPU[_family(instance.name)][2] * model.gpu_share * share / (share + model.gpu_knee)
    else:
        speed = _VCPU_FLOPS[_family(instance.name)] * instance.vcpus * share / (share + 0.5)
    return model.flops * share / speed


def _exchange_seconds(model: Model, deployment: Deployment) -> float:
    nodes = deployment.nodes
    bytes_per_second = deployment.offer.instance.network_gbps * 1e9 / 8
    volume = 4 * model.parameters / bytes_per_second
    if model.exchange == "servers":
        return 2 * nodes * volume / min(nodes, SERVERS) + nodes * SERVE_SECONDS
    return 2 * (nodes - 1) / nodes * volume + 2 * (nodes - 1) * HOP_SECONDS


def _fits(model: Model, deployment: Deployment) -> bool:
    instance = deployment.offer.instance
    memory = (instance.gpu_memory_gib * instance.gpus if instance.gpus else instance.memory_gib) * 2**30
    if model.parameters >= PARTITIONED_FROM:
        return STATE_BYTES * model.parameters <= 0.8 * memory * deployment.nodes
    device = instance.gpu_memory_gib * 2**30 if instance.gpus else memory
    return STATE_BYTES * model.parameters <= 0.8 * device


def _quirk(model: Model, name: str) -> float:
    rng = np.random.default_rng(list(f"{model.name} {name}".encode()))
    return float(rng.uniform(1.0 - QUIRK, 1.0 + QUIRK))


def _family(name: str) -> str:
    return name.split(".")[0]
