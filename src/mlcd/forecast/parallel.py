"""How long one training step takes: the parallel model.

    n   nodes                     B   global batch size          c(m)   compute of one micro-batch, seconds
    g   devices in a node         m   micro-batch on a device    S      synchronisation, seconds
    K   devices, n·g              s   micro-batches in a step    τ      step time, seconds
    α   cost of a step however small, seconds                    β      cost of one sample more, seconds
    p   how sharply small batches saturate                       q      how much compute and sync overlap

Scavenger (equations 8–10):  τ = compute + sync,  compute ∝ b,  sync ∝ K.  Generalised where data demand it:

    c(m) = (αᵖ + (β·m)ᵖ)^(1/p)          small batches do not fill a device; p = 1 is a plain sum
    τ    = (s − 1)·c(m) + (c(m)^q + S^q)^(1/q)     gradients travel while others are computed; q = 1: after
    S    = α·exp(intra + slope·log₂(g/2))                         one node, g > 1
    S    = α·exp(inter + slope_n·log₂(n/2) + slope_g·log₂ g)      several nodes;  S = 0 for one device

Gradients are sent once in a step, with the last micro-batch. S is a multiple of α because both count layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, exp, inf, log, log2

SATURATION = 1.2  # p, typical
OVERLAP = 2.5  # q, typical

Grid = tuple[int, int]  # nodes, devices in a node


@dataclass(frozen=True)
class Placement:
    """Where a step runs and how its batch is cut."""

    family: str  # of instance types with the same device, such as all with T4s
    instance: str
    nodes: int
    devices_per_node: int  # GPUs, or 1 where a node works as one
    batch: int  # global
    micro_limit: float = inf  # samples that one device holds at once; larger shares are accumulated

    @property
    def devices(self) -> int:
        """K, all that work together."""
        return self.nodes * self.devices_per_node

    @property
    def local_batch(self) -> float:
        """One device's share of the batch."""
        return self.batch / self.devices

    @property
    def micro_batches(self) -> int:
        """How many pieces a device cuts its share into."""
        return max(1, ceil(self.local_batch / self.micro_limit - 1e-6))

    @property
    def micro_batch(self) -> float:
        """Samples of one piece."""
        return self.local_batch / self.micro_batches

    @property
    def grid(self) -> Grid:
        """Nodes × devices in a node."""
        return (self.nodes, self.devices_per_node)


@dataclass(frozen=True)
class SyncTrend:
    """log(S/α) over nodes and devices; the defaults are what is believed before anything was seen."""

    intra: float = 0.0
    intra_slope: float = 0.3  # for each doubling of the devices in the only node
    inter: float = 1.0
    nodes_slope: float = 0.2  # for each doubling of the nodes
    devices_slope: float = 0.2

    def log_ratio(self, grid: Grid) -> float:
        """log(S/α); −∞ for a single device."""
        nodes, devices = grid
        if nodes == 1:
            return self.intra + self.intra_slope * log2(devices / 2) if devices > 1 else -inf
        return self.inter + self.nodes_slope * log2(nodes / 2) + self.devices_slope * log2(devices)


@dataclass(frozen=True)
class StepLaw:
    """The parameters of one job on one family of instance types: a stored model, and a shape for others."""

    alpha_seconds: float
    beta_seconds: float  # for each sample
    smallest_micro_batch: float  # between these two the law was fitted
    largest_micro_batch: float
    saturation: float = SATURATION
    overlap: float = OVERLAP
    trend: SyncTrend = SyncTrend()
    # log(S/α) where it was seen to leave the trend
    log_sync: Mapping[Grid, float] = field(default_factory=dict)

    @property
    def log_load(self) -> float:
        """log(β·m/α) at the largest micro-batch: above 0 the device is busy, below it idles."""
        return log(self.beta_seconds * self.largest_micro_batch / self.alpha_seconds)

    def compute_seconds(self, micro_batch: float) -> float:
        """c(m)."""
        p = self.saturation
        return float((self.alpha_seconds**p + (self.beta_seconds * micro_batch) ** p) ** (1 / p))

    def sync_ratio(self, grid: Grid) -> float:
        """log(S/α)."""
        return self.log_sync.get(grid, self.trend.log_ratio(grid))

    def step_seconds(self, placement: Placement) -> float:
        """τ."""
        compute = self.compute_seconds(placement.micro_batch)
        sync = self.alpha_seconds * exp(self.sync_ratio(placement.grid)) if placement.devices > 1 else 0.0
        last = (compute**self.overlap + sync**self.overlap) ** (1 / self.overlap)
        return float((placement.micro_batches - 1) * compute + last)
