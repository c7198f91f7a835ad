"""What SkyPilot's catalog offers, as offers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any

from mlcd.core.losses import SPOT_LOSSES_PER_HOUR
from mlcd.core.machines import InstanceType, Offer


def make_offers(listed: Mapping[str, Iterable[Any]], max_nodes: int, date: str) -> list[Offer]:
    """From what sky.list_accelerators gives, on demand and spot; an instance type of several clouds is one of each."""
    offers: dict[tuple[str, str, str, bool], Offer] = {}
    for info in (info for infos in listed.values() for info in infos):
        for offer in _offers(info, max_nodes, date):
            key = (offer.region, offer.instance.name, offer.instance.gpu_model, offer.spot)
            if key not in offers or offer.usd_per_hour < offers[key].usd_per_hour:
                offers[key] = offer
    return list(offers.values())


def place_of(offer: Offer) -> tuple[str, str]:
    """Cloud and region, as SkyPilot names them."""
    cloud, _, region = offer.region.partition("/")
    return cloud, region


def _offers(info: Any, max_nodes: int, date: str) -> Iterator[Offer]:
    if not info.instance_type:  # TPUs and the like, which are no machines by themselves
        return
    instance = InstanceType(
        name=str(info.instance_type),
        vcpus=float(info.cpu_count or 0.0),
        memory_gib=float(info.memory or 0.0),
        gpus=int(info.accelerator_count or 0),
        gpu_model=str(info.accelerator_name or ""),
        gpu_memory_gib=float(info.device_memory or 0.0),
    )
    place = f"{str(info.cloud).lower()}/{info.region}"
    for price, spot in ((info.price, False), (info.spot_price, True)):
        if price is not None and isfinite(price) and price > 0:
            yield Offer(
                "skypilot",
                instance,
                float(price),
                max_nodes,
                place,
                spot,
                priced_at=date,
                source="SkyPilot",
                losses_per_hour=SPOT_LOSSES_PER_HOUR if spot else 0.0,
            )
