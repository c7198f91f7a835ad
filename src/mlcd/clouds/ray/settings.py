"""Settings of the cloud ray."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlcd.settings import setting


@dataclass(frozen=True)
class RaySettings:
    """An existing Ray cluster, as a cloud."""

    section: ClassVar[str] = "ray"

    address: str = setting(
        "auto",
        "the cluster: `auto` for one that runs on this computer, `host:6379` on a node of it, `ray://host:10001` from elsewhere",
    )
    usd_per_cpu_hour: float = setting(0.05, "price of a CPU of the cluster")
    usd_per_gpu_hour: float = setting(1.0, "price of a GPU, besides the CPUs of its node")
    wait_seconds: float = setting(60.0, "how long a task waits for nodes that are busy")
    lost_seconds: float = setting(20.0, "a node that does not answer for so long is lost")
    lease_seconds: float = setting(300.0, "nodes whose lease nobody renews for so long are given back")
