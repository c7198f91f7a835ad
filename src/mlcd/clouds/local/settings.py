"""Settings of the cloud local."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlcd.settings import setting


@dataclass(frozen=True)
class LocalSettings:
    """The computer at hand, as a cloud."""

    section: ClassVar[str] = "local"

    usd_per_core_hour: float = setting(0.05, "price of a core of this computer")
    usd_per_gpu_hour: float = setting(1.0, "price of a GPU of this computer, besides its cores")
    usd_per_gib_hour: float = setting(
        0.0, "price of a GiB of memory, besides its cores; above 0 a training rents as much as its batch needs"
    )
    cores: int = setting(
        0,
        "how many cores are for rent; 0: as many as this computer or its container lets us use; more than that: they are shared",
    )
    memory_gib: float = setting(0.0, "how much memory is for rent; 0: all of it")
