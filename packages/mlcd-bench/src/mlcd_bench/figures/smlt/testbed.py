"""A synthetic Lambda after the SMLT paper's setting (section 5.1): memory sizes × numbers of functions.

The paper's measurements are not public, so throughput is reckoned. With the global batch b fixed, a step on n functions of
m MB takes

    compute   F·b / (n·v·R·e(l))           v = m/1,769 vCPUs of R operations a second; l = b/n samples on a function,
                                           e(l) = l/(l + ½): small shares fill no vector unit
    exchange  (3 + 1/n)·4P / B             hierarchical synchronisation (Fig. 5): shards up, shards down, one aggregate up,
              or n·3·4P / S if larger      all aggregates down; B bytes a second of a function, S of the parameter store
              + n·λ
              (1 + n)·4P / B + n·Λ         through the object store, each worker reading all others (Siren)
              n·2·4P / C + n·λ             one central server of C bytes a second (Cirrus)
    step      compute·(1 + σ·ln n) + exchange

and throughput = b / step, times a quirk of ±8 % for each memory size. A function must hold three copies of the model and
the activations of its share. Prices are Lambda's: memory × time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.trial import FailureKind
from mlcd_bench.cases import Case

SIZES_MB = (1024, 1769, 3072, 4096, 6144, 8192, 10240)
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 200)
USD_PER_GB_SECOND = 0.0000166667
MB_PER_VCPU = 1769.0
VCPU_FLOPS = 25e9  # R
FUNCTION_BYTES = 75e6  # B
STORE_BYTES = 5e9  # S: four servers of 10 Gbit/s
CENTRAL_BYTES = 1.25e9  # C
STORE_SECONDS = 0.001  # λ of the parameter store, for each worker
OBJECT_SECONDS = 0.03  # Λ of the object store
STRAGGLING = 0.05  # σ
QUIRK = 0.08
_RUNTIME_BYTES = 300e6  # the framework itself


@dataclass(frozen=True)
class Net:
    """A model to train, with the batch of one phase."""

    name: str
    parameters: float
    flops: float  # of a sample, forward and backward
    batch: int
    sample_bytes: float = 2e6  # activations of one sample
    exchange: str = "hierarchical"  # or "objects" (Siren), "central" (Cirrus)


RESNET_18 = Net("ResNet-18", 11e6, 5.4e9, 512)
RESNET_50 = Net("ResNet-50", 25e6, 12.3e9, 512)
BERT_SMALL = Net("BERT-small", 66e6, 40e9, 256, 20e6)
BERT_MEDIUM = Net("BERT-medium", 110e6, 67e9, 256, 27e6)


def functions_case(net: Net) -> Case:
    """The model on all memory sizes and numbers of functions."""
    truth = tuple(
        (Deployment(_offer(memory_mb), count), _throughput(net, memory_mb, count))
        for memory_mb in SIZES_MB
        for count in COUNTS
        if count <= net.batch
    )
    label = f"{net.name}/{net.batch}" + ("" if net.exchange == "hierarchical" else f"/{net.exchange}")
    return Case("functions-testbed", label, None, truth, failing=FailureKind.OUT_OF_MEMORY)


def _offer(memory_mb: int) -> Offer:
    instance = InstanceType(f"fn-{memory_mb}mb", memory_mb / MB_PER_VCPU, memory_mb / 1024)
    usd = USD_PER_GB_SECOND * memory_mb / 1024 * 3600
    return Offer("functions", instance, usd, max(COUNTS), "us-east-1", kind="function")


def _throughput(net: Net, memory_mb: int, count: int) -> float | None:
    needed = _RUNTIME_BYTES + 12 * net.parameters + net.batch / count * net.sample_bytes
    if needed > memory_mb * 2**20:
        return None
    step = compute_seconds(net, memory_mb, count) + exchange_seconds(net, count)
    return net.batch / step * _quirk(net, memory_mb)


def compute_seconds(net: Net, memory_mb: int, count: int) -> float:
    """Of a step, with the slowest of all functions."""
    share = net.batch / count
    speed = VCPU_FLOPS * memory_mb / MB_PER_VCPU * share / (share + 0.5)
    return net.flops * share / speed * (1.0 + STRAGGLING * log(count))


def exchange_seconds(net: Net, count: int) -> float:
    """Of a step; one function alone exchanges nothing."""
    volume = 4 * net.parameters
    if count == 1:
        return 0.0
    if net.exchange == "objects":
        return (1 + count) * volume / FUNCTION_BYTES + count * OBJECT_SECONDS
    if net.exchange == "central":
        return max(2 * volume / FUNCTION_BYTES, count * 2 * volume / CENTRAL_BYTES) + count * STORE_SECONDS
    own = (3 + 1 / count) * volume / FUNCTION_BYTES
    return max(own, count * 3 * volume / STORE_BYTES) + count * STORE_SECONDS


def _quirk(net: Net, memory_mb: int) -> float:
    """The same for every way of exchange, so that these differ by nothing else."""
    rng = np.random.default_rng(list(f"{net.name} {memory_mb}".encode()))
    return float(rng.uniform(1.0 - QUIRK, 1.0 + QUIRK))
