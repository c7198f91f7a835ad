"""What an instance type is worth on this computer: everything by one factor.

`vcpus_per_core` (20 by default) is the factor: a vCPU is 1/20 of a core, and a network of 10 Gbit/s one of
500 Mbit/s, so that the ratio of computing to talking is the real one. Memory and disk cannot shrink as much, for
a framework's own footprint does not: a GiB of memory is 256 MiB here and a GiB of disk 64 MiB, with floors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlcd.catalog.ec2_types import listed_types

VCPUS_PER_CORE = 20.0
MEMORY_SHARE = 1 / 4
DISK_SHARE = 1 / 16
LEAST_MEMORY_MIB = 512
LEAST_DISK_MIB = 256
MOST_DISK_MIB = 4096
BUSY_SHARE = 0.85  # of the cores; the rest is for the controller, the API and the kernel
_WORDS_GBIT = {"Very Low": 0.05, "Low": 0.1, "Low to Moderate": 0.3, "Moderate": 0.5, "High": 1.0}


@dataclass(frozen=True)
class HostSize:
    """What a host gets of this computer."""

    cores: float
    memory_mib: int
    network_mbit: float
    disk_mib: int


def host_size(facts: Mapping[str, Any], disk_gib: int, vcpus_per_core: float = VCPUS_PER_CORE) -> HostSize:
    """A type's real facts, as DescribeInstanceTypes tells them, by the factor."""
    disk_mib = round(disk_gib * 1024 * DISK_SHARE)
    return HostSize(
        cores=vcpus_of(facts) / vcpus_per_core,
        memory_mib=max(LEAST_MEMORY_MIB, round(facts["MemoryInfo"]["SizeInMiB"] * MEMORY_SHARE)),
        network_mbit=_network_gbit(facts) * 1000 / vcpus_per_core,
        disk_mib=min(max(LEAST_DISK_MIB, disk_mib), MOST_DISK_MIB),
    )


def vcpus_of(facts: Mapping[str, Any]) -> int:
    """A type's virtual CPUs."""
    return int(facts["VCpuInfo"]["DefaultVCpus"])


def vcpus_that_fit(cores: int, vcpus_per_core: float = VCPUS_PER_CORE) -> int:
    """How many vCPUs this computer can bear at full speed."""
    return max(2, math.floor(cores * BUSY_SHARE * vcpus_per_core))


def _network_gbit(facts: Mapping[str, Any]) -> float:
    """What the network carries for long, not what it bursts to: by mlcd's own list, where the type is on it."""
    listed = {offer.instance.name: offer.instance.network_gbps for offer in listed_types()}
    if listed.get(facts.get("InstanceType", "")):
        return listed[facts["InstanceType"]]
    network = facts["NetworkInfo"]
    for card in network.get("NetworkCards", ()):
        if card.get("BaselineBandwidthInGbps"):
            return float(card["BaselineBandwidthInGbps"])
    said = network.get("NetworkPerformance", "")
    number = re.search(r"([\d.]+) Gigabit", said)
    return float(number[1]) if number else _WORDS_GBIT.get(said, 0.5)
