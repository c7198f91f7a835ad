"""How many vCPUs the account may still run, by family and market: nothing is proposed beyond it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mlcd.clouds.ec2.account import Account
from mlcd.clouds.ec2.errors import translated
from mlcd.errors import MlcdError

MOST_NODES = 64
UNKNOWN_NODES = 16  # where the quotas may not be read

_FAMILIES = {
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), "standard"),
    "g": "g",
    "vt": "g",
    "p": "p",
    "trn": "trn",
    "inf": "inf",
    "dl": "dl",
    "f": "f",
    "x": "x",
}
_CODES = {  # family, spot → code of the quota
    ("standard", False): "L-1216C47A",
    ("g", False): "L-DB2E81BA",
    ("p", False): "L-417A185B",
    ("x", False): "L-7295265B",
    ("f", False): "L-74FC7D96",
    ("inf", False): "L-1945791B",
    ("trn", False): "L-2C3B7624",
    ("dl", False): "L-6E869C2A",
    ("standard", True): "L-34B43A08",
    ("g", True): "L-3819A6DF",
    ("p", True): "L-7212CCBC",
    ("x", True): "L-E3A00192",
    ("f", True): "L-88CF9481",
    ("inf", True): "L-B5D1601B",
    ("trn", True): "L-6B0D517C",
    ("dl", True): "L-85EED4F7",
}


@dataclass(frozen=True)
class Quotas:
    """vCPUs that may still be rented in a region; a family that is missing was not to be read."""

    free_vcpus: Mapping[tuple[str, bool], float]

    def shared_vcpus(self, name: str, spot: bool) -> float:
        """vCPUs that all types of its family can have together; 0: nobody knows."""
        return self.free_vcpus.get((family_of(name), spot), 0.0)

    def most_nodes(self, name: str, vcpus: float, spot: bool) -> int:
        """How many machines of a type the account may have now."""
        free = self.free_vcpus.get((family_of(name), spot))
        if free is None:
            return UNKNOWN_NODES
        return min(MOST_NODES, int(free // max(1.0, vcpus)))


def read_quotas(account: Account, region: str, families: set[str]) -> Quotas:
    """The quotas of these families, less what runs already."""
    in_use = running_vcpus(account, region)
    client = account.client("service-quotas", region)
    free: dict[tuple[str, bool], float] = {}
    for (family, spot), code in _CODES.items():
        if family not in families:
            continue
        try:
            with translated("read its quotas"):
                quota = client.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]
        except MlcdError:
            continue  # not allowed to read it: `mlcd check aws` says so
        free[family, spot] = max(0.0, quota["Value"] - in_use.get((family, spot), 0.0))
    return Quotas(free)


def running_vcpus(account: Account, region: str) -> dict[tuple[str, bool], float]:
    """vCPUs of everything that the account runs there, whoever started it."""
    alive = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    used: dict[tuple[str, bool], float] = {}
    with translated("list its instances"):
        for page in account.client("ec2", region).get_paginator("describe_instances").paginate(Filters=alive):
            for one in (one for group in page["Reservations"] for one in group["Instances"]):
                key = family_of(one["InstanceType"]), one.get("InstanceLifecycle") == "spot"
                cpus = one.get("CpuOptions", {})
                vcpus = cpus.get("CoreCount", 1) * cpus.get("ThreadsPerCore", 2)
                used[key] = used.get(key, 0.0) + vcpus
    return used


def family_of(name: str) -> str:
    """The family by which AWS counts a type."""
    letters = re.match(r"[a-z]+", name)
    return _FAMILIES.get(letters[0] if letters else "", "other")
