"""A job whose step times follow the law, for tests that know the answer."""

from __future__ import annotations

from mlcd.forecast.parallel import Placement, StepLaw, SyncTrend

LAW = StepLaw(
    alpha_seconds=0.02,
    beta_seconds=5e-4,
    smallest_micro_batch=16,
    largest_micro_batch=256,
    trend=SyncTrend(intra=0.2, intra_slope=0.3, inter=1.2, nodes_slope=0.25, devices_slope=0.15),
)


def placements(family: str = "t4", limit: float = 256.0) -> list[Placement]:
    return [
        Placement(family, f"{family}x{devices}", nodes, devices, batch, limit)
        for devices in (1, 2, 4)
        for nodes in (1, 2, 3, 4, 8, 16)
        for batch in (256, 512, 1024, 2048, 4096)
        if batch >= 16 * nodes * devices
    ]
