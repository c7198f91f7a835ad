"""A synthetic testbed for the Scavenger paper: three networks on clusters of Google's e2-standard-4.

    K   workers     B   global batch size     b   a worker's share, B/K     τ   step time, seconds     e   epochs

The paper's machines, price, limits of K and B, settling and checkpoint times; roughly its step times (20 steps take 12 to
50 seconds, there 17 to 35) and the length of its ResNet-18 training (15 hours on 4 workers, 5 on 16). What makes them is not what the models assume: a share above CACHED samples costs more, the slowest worker sets
the pace, the parameter servers queue, and every cluster has a quirk that nothing explains. Epochs follow the paper's own
law, e = e* + θ/√B (equations 6 and 7), for trainings that keep their learning rate, with some scatter.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from zlib import crc32

import numpy as np

from mlcd.forecast.parallel import Placement
from mlcd_bench.models.data import Recorded, RecordedJob

TYPE = "e2-standard-4"
USD_PER_HOUR = 0.13402
WORKERS = (8, 12, 16, 20)
CACHED, SPILLED = 56, 0.35  # samples, and how much longer each one more takes
QUIRK, SCATTER = 0.015, 0.01  # of the logarithm


@dataclass(frozen=True)
class Net:
    """A network and its training."""

    name: str
    data: int  # samples of an epoch
    batches: tuple[int, ...]
    fixed_seconds: float  # of a worker's step
    sample_seconds: float
    server_seconds: float  # that each worker adds to the exchange
    epochs_floor: float  # e*
    theta: float
    settling_steps: int  # until the gradient noise has settled
    checkpoint_seconds: float  # to change the deployment


RESNET_18 = Net("ResNet-18", 50_000, (384, 512, 640, 768, 896, 1024), 0.15, 0.010, 0.012, 175.0, 4350.0, 2000, 37.0)
RESNET_50 = Net("ResNet-50", 50_000, (384, 512, 640, 768, 896, 1024), 0.25, 0.013, 0.014, 110.0, 2600.0, 3000, 40.0)
TRANSFORMER = Net(
    "Transformer", 400_000, (512, 640, 768, 896, 1024, 1280), 0.20, 0.008, 0.016, 40.0, 1400.0, 10_000, 127.0
)
NETS = (RESNET_18, RESNET_50, TRANSFORMER)


def compute_seconds(net: Net, workers: int, batch: float) -> float:
    """Of the slowest worker's share."""
    share = batch / workers
    spilled = SPILLED * max(share - CACHED, 0.0)
    return (net.fixed_seconds + net.sample_seconds * (share + spilled)) * (1.0 + 0.03 * log(workers))


def sync_seconds(net: Net, workers: int) -> float:
    """Of the parameter servers, which serve one worker after the other and the late ones later."""
    return net.server_seconds * (workers + 0.01 * workers**2)


def step_seconds(net: Net, workers: int, batch: int) -> float:
    """τ; a fifth of the exchange goes on under the computation."""
    return (compute_seconds(net, workers, batch) + 0.8 * sync_seconds(net, workers)) * _odd(QUIRK, net, workers, batch)


def epochs(net: Net, batch: int) -> float:
    """e."""
    return (net.epochs_floor + net.theta / sqrt(batch)) * _odd(SCATTER, net, 0, batch)


def steps(net: Net, batch: int) -> float:
    """n_i (equation 4)."""
    return epochs(net, batch) * net.data / batch


def hours(net: Net, workers: int, batch: int) -> float:
    """T (equation 3)."""
    return steps(net, batch) * step_seconds(net, workers, batch) / 3600.0


def usd(net: Net, workers: int, batch: int) -> float:
    """C (equation 5)."""
    return hours(net, workers, batch) * workers * USD_PER_HOUR


def placements(net: Net) -> list[Placement]:
    """Every configuration (K, B)."""
    return [Placement(TYPE, TYPE, workers, 1, batch) for workers in WORKERS for batch in net.batches]


def recorded(net: Net) -> RecordedJob:
    """The network as a job of which everything was recorded."""
    rows = tuple(
        Recorded(one, step_seconds(net, one.nodes, one.batch), epochs(net, one.batch) * net.data, USD_PER_HOUR, "made")
        for one in placements(net)
    )
    return RecordedJob(net.name, rows, {}, {})


def _odd(spread: float, net: Net, workers: int, batch: int) -> float:
    """What nothing explains, always the same for the same configuration."""
    draw = np.random.default_rng(crc32(f"{net.name} {workers} {batch}".encode())).standard_normal()
    return float(np.exp(spread * draw))
