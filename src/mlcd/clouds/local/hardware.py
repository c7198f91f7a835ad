"""What this computer lets us use: cores, memory and GPUs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mlcd.clouds.local.settings import LocalSettings
from mlcd.clouds.tasks.gpus import Gpu, find_gpus

_GIB = 2.0**30
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Hardware:
    """The cores for rent, each with the processor that it runs on, and what comes with them."""

    cores: tuple[int, ...]  # core for rent → number of the processor; shared in turn where there are too few
    memory_gib: float
    gpus: tuple[Gpu, ...] = ()


def find_hardware(settings: LocalSettings) -> Hardware:
    """The hardware of this computer, as the settings and the container limit it."""
    processors = usable_processors()
    count = settings.cores or len(processors)
    return Hardware(
        cores=tuple(processors[core % len(processors)] for core in range(count)),
        memory_gib=settings.memory_gib or usable_memory_gib(),
        gpus=find_gpus(),
    )


def usable_processors(cgroups: Path = _CGROUPS) -> tuple[int, ...]:
    """The processors that this process may run on, no more than the container's quota pays for."""
    allowed = sorted(os.sched_getaffinity(0))
    quota = _cpu_quota(cgroups)
    return tuple(allowed if quota is None else allowed[: max(1, int(quota))])


def usable_memory_gib(cgroups: Path = _CGROUPS) -> float:
    """The memory of this computer or of the container, whichever is less."""
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GIB
    limits = [_number(cgroups / "memory.max"), _number(cgroups / "memory/memory.limit_in_bytes")]
    return min([installed, *(limit / _GIB for limit in limits if limit is not None and limit > 0)])


def _cpu_quota(cgroups: Path) -> float | None:
    """Processors' worth of time that the container gets, in either version of cgroups."""
    words = _words(cgroups / "cpu.max")
    if len(words) == 2 and words[0].isdigit():
        return int(words[0]) / int(words[1])
    quota = _number(cgroups / "cpu/cpu.cfs_quota_us")
    period = _number(cgroups / "cpu/cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None


def _number(file: Path) -> float | None:
    words = _words(file)
    try:
        return float(words[0]) if words else None
    except ValueError:  # "max"
        return None


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
