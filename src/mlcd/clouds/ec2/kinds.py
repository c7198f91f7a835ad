"""Instance types as EC2 describes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from mlcd.clouds.ec2.account import Account
from mlcd.clouds.ec2.errors import translated
from mlcd.core.machines import InstanceType

_WORDS_GBPS = {"Very Low": 0.05, "Low": 0.1, "Low to Moderate": 0.3, "Moderate": 0.5, "High": 1.0}
_CHUNK = 100  # names in one question


@dataclass(frozen=True)
class Kind:
    """A type with what renting it needs to know."""

    instance: InstanceType
    spot: bool  # whether it is sold as spot, too
    cluster: bool  # whether several can be placed close together


def describe(account: Account, region: str, names: Sequence[str]) -> list[Kind]:
    """Those of the named types that the region has."""
    client = account.client("ec2", region)
    found: list[Any] = []
    with translated("describe instance types"):
        for first in range(0, len(names), _CHUNK):
            only = [{"Name": "instance-type", "Values": list(names[first : first + _CHUNK])}]
            for page in client.get_paginator("describe_instance_types").paginate(Filters=only):
                found += page["InstanceTypes"]
    return [read_kind(facts) for facts in found]


def read_kind(facts: dict[str, Any]) -> Kind:
    """One type of DescribeInstanceTypes."""
    gpus = facts.get("GpuInfo", {}).get("Gpus", [])
    instance = InstanceType(
        name=facts["InstanceType"],
        vcpus=float(facts["VCpuInfo"]["DefaultVCpus"]),
        memory_gib=facts["MemoryInfo"]["SizeInMiB"] / 1024.0,
        gpus=sum(int(gpu["Count"]) for gpu in gpus),
        gpu_model=str(gpus[0]["Name"]) if gpus else "",
        gpu_memory_gib=gpus[0].get("MemoryInfo", {}).get("SizeInMiB", 0) / 1024.0 if gpus else 0.0,
        network_gbps=network_gbps(facts.get("NetworkInfo", {})),
    )
    strategies = facts.get("PlacementGroupInfo", {}).get("SupportedStrategies", [])
    return Kind(instance, "spot" in facts.get("SupportedUsageClasses", []), "cluster" in strategies)


def network_gbps(network: dict[str, Any]) -> float:
    """What the network carries for long, not what it bursts to."""
    cards = [float(card.get("BaselineBandwidthInGbps") or 0.0) for card in network.get("NetworkCards", ())]
    if any(cards):
        return sum(cards)
    said = str(network.get("NetworkPerformance", ""))
    number = re.search(r"(?:(\d+)x )?([\d.]+) Gigabit", said)
    if number:
        return float(number[1] or 1) * float(number[2])
    return _WORDS_GBPS.get(said, 0.0)


def wanted(names: Iterable[str], patterns: str) -> list[str]:
    """The names that fit one of the user's patterns, all of them where there is none; 'c5.large' alone always fits."""
    asked = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    if not asked:
        return sorted(names)
    plain = [pattern for pattern in asked if not re.search(r"[*?\[]", pattern)]
    fitting = [name for name in names if any(fnmatch(name, pattern) for pattern in asked)]
    return sorted({*fitting, *plain})
