"""Price lists in files: mlcd's own kind of CSV, or a catalog of SkyPilot's.

    ours        instance_type, usd_per_hour; and where known: cloud, region, spot_usd_per_hour, vcpus, memory_gib, gpus,
                gpu_model, gpu_memory_gib, network_gbps, max_nodes, priced_at (an ISO date)
    SkyPilot's  InstanceType, vCPUs, MemoryGiB, AcceleratorName, AcceleratorCount, Price, SpotPrice, Region, …

A price of zero is no price. What has no date of its own has that of the file.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from mlcd.core.losses import SPOT_LOSSES_PER_HOUR
from mlcd.core.machines import InstanceType, Offer
from mlcd.errors import UserError

MOST_NODES = 16  # where the list does not say how many may be had
_DAY_SECONDS = 86400.0
_SKYPILOT = {
    "InstanceType": "instance_type",
    "vCPUs": "vcpus",
    "MemoryGiB": "memory_gib",
    "AcceleratorName": "gpu_model",
    "AcceleratorCount": "gpus",
    "Price": "usd_per_hour",
    "SpotPrice": "spot_usd_per_hour",
    "Region": "region",
}


def read_price_list(file: Path, cloud: str = "") -> list[Offer]:
    """The offers of a price list, the cheapest of those that differ by their zone alone; `cloud` where no column says."""
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        written = datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"The price list {file} cannot be read: {error}") from error
    named = [_named(row) for row in rows]
    if not named or not {"instance_type", "usd_per_hour"} <= set(named[0]):
        raise UserError(
            f"{file} is no price list.",
            "Its first line must name instance_type and usd_per_hour, or be SkyPilot's.",
        )
    offers = (
        offer
        for number, row in enumerate(named, start=2)
        for offer in _offers(row, cloud or file.parent.name, f"{file.name}", written, f"{file}, line {number}")
    )
    return _cheapest(offers)


def fresh(offers: Iterable[Offer], max_age_days: float, now: float) -> list[Offer]:
    """The offers whose price is not too old."""
    return [offer for offer in offers if age_days(offer, now) <= max_age_days]


def age_days(offer: Offer, now: float) -> float:
    """How old the price of an offer is; 0: it has no date."""
    if not offer.priced_at:
        return 0.0
    priced = datetime.combine(date.fromisoformat(offer.priced_at[:10]), datetime.min.time(), UTC)
    return max(0.0, (now - priced.timestamp()) / _DAY_SECONDS)


def _named(row: Mapping[str, str]) -> dict[str, str]:
    """A row by our names, without what is empty."""
    return {_SKYPILOT.get(name, name): value.strip() for name, value in row.items() if name and value}


def _offers(row: Mapping[str, str], cloud: str, source: str, written: str, where: str) -> Iterator[Offer]:
    try:
        instance = InstanceType(
            name=row.get("instance_type", ""),
            vcpus=float(row.get("vcpus", 0)),
            memory_gib=float(row.get("memory_gib", 0)),
            gpus=int(float(row.get("gpus", 0))),
            gpu_model=row.get("gpu_model", ""),
            gpu_memory_gib=float(row.get("gpu_memory_gib", 0)),
            network_gbps=float(row.get("network_gbps", 0)),
        )
        most = int(row.get("max_nodes", MOST_NODES))
        prices = {False: float(row.get("usd_per_hour", 0)), True: float(row.get("spot_usd_per_hour", 0))}
        priced_at = date.fromisoformat(row.get("priced_at", written)[:10]).isoformat()
    except ValueError as error:
        raise UserError(f"{where}: {error}.", "Fix the price list.") from error
    for spot, usd in prices.items():
        if instance.name and usd > 0:
            yield Offer(
                cloud=row.get("cloud", cloud),
                instance=instance,
                usd_per_hour=usd,
                max_nodes=most,
                region=row.get("region", ""),
                spot=spot,
                priced_at=priced_at,
                source=source,
                losses_per_hour=SPOT_LOSSES_PER_HOUR if spot else 0.0,
            )


def _cheapest(offers: Iterable[Offer]) -> list[Offer]:
    best: dict[tuple[str, str, str, bool], Offer] = {}
    for offer in offers:
        key = (offer.cloud, offer.region, offer.instance.name, offer.spot)
        if key not in best or offer.usd_per_hour < best[key].usd_per_hour:
            best[key] = offer
    return list(best.values())
