"""Prices of a region: on demand by the price list, spot by the history; kept for a while with time and source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlcd.clouds.ec2.account import PRICE_REGION, Account
from mlcd.clouds.ec2.errors import translated
from mlcd.clouds.tasks.files import write_atomically
from mlcd.core.serial import from_json, to_json
from mlcd.errors import CloudError

ON_DEMAND_SECONDS = 24 * 3600.0  # list prices change a few times a year
SPOT_SECONDS = 900.0
_LONG_SECONDS = 7 * 24 * 3600.0  # a history is not kept for longer than somebody asks for it
_SYSTEM = "Linux/UNIX"


@dataclass(frozen=True)
class Prices:
    """US dollars an hour, by type; spot prices by zone."""

    at: float  # when they were asked for
    source: str
    on_demand: dict[str, float] = field(default_factory=dict)
    spot: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def date(self) -> str:
        """ISO date of these prices."""
        return datetime.fromtimestamp(self.at, UTC).date().isoformat()


def on_demand_prices(account: Account, region: str, names: Sequence[str], cache: Path, now: float) -> Prices:
    """List prices of these types, asked for at most once a day."""
    kept = _read(cache / f"on-demand-{region}.json")
    if kept and now - kept.at < ON_DEMAND_SECONDS and set(names) <= set(kept.on_demand):
        return kept
    prices = Prices(now, "AWS price list", on_demand=_ask_list(account, region, set(names)))
    known = {**(kept.on_demand if kept and now - kept.at < ON_DEMAND_SECONDS else {}), **prices.on_demand}
    return _keep(cache / f"on-demand-{region}.json", Prices(now, prices.source, known))


@dataclass(frozen=True)
class SpotHistory:
    """How the spot price of one type went in each zone: zone → (since when, US dollars an hour), oldest first."""

    at: float  # when it was asked for
    since: float  # from when on it is known
    zones: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)

    def mean(self, zone: str, begin: float, end: float) -> float | None:
        """The price of a span of time on average, each price for as long as it held; None: not known."""
        steps = self.zones.get(zone, ())
        if not steps or end <= begin:
            return None
        ends = [*(start for start, _ in steps[1:]), float("inf")]
        starts = [float("-inf"), *(start for start, _ in steps[1:])]
        spans = [max(0.0, min(end, last) - max(begin, first)) for first, last in zip(starts, ends, strict=True)]
        return sum(span * usd for span, (_, usd) in zip(spans, steps, strict=True)) / (end - begin)


def spot_history(account: Account, region: str, name: str, cache: Path, since: float, now: float) -> SpotHistory:
    """The spot prices of a type since then, asked for at most every quarter of an hour."""
    kept = known_history(region, name, cache)
    if kept is not None and now - kept.at < SPOT_SECONDS and kept.since <= since:
        return kept
    since = since if kept is None else min(since, kept.since) if now - kept.since < _LONG_SECONDS else since
    zones: dict[str, list[tuple[float, float]]] = {}
    for row in _ask_history(account, region, [name], since):
        zones.setdefault(row["AvailabilityZone"], []).append((row["Timestamp"].timestamp(), float(row["SpotPrice"])))
    found = SpotHistory(now, since, {zone: tuple(sorted(steps)) for zone, steps in zones.items()})
    _write(_history_file(region, name, cache), to_json(found))
    return found


def known_history(region: str, name: str, cache: Path) -> SpotHistory | None:
    """The spot prices of a type as they were last asked for, by whoever did."""
    return _read_history(_history_file(region, name, cache))


def _history_file(region: str, name: str, cache: Path) -> Path:
    return cache / f"spot-history-{region}-{name}.json"


def spot_prices(account: Account, region: str, names: Sequence[str], cache: Path, now: float) -> Prices:
    """The present spot price of these types in each zone, asked for at most every quarter of an hour."""
    kept = _read(cache / f"spot-{region}.json")
    if kept and now - kept.at < SPOT_SECONDS and set(names) <= set(kept.spot):
        return kept
    spot: dict[str, dict[str, float]] = {name: {} for name in names}
    for row in _ask_history(account, region, names, now):
        spot[row["InstanceType"]].setdefault(row["AvailabilityZone"], float(row["SpotPrice"]))
    return _keep(cache / f"spot-{region}.json", Prices(now, "AWS spot price history", spot=spot))


def _ask_list(account: Account, region: str, names: set[str]) -> dict[str, float]:
    client = account.client("pricing", PRICE_REGION)
    asked = {
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "productFamily": "Compute Instance",
    }
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in asked.items()]
    with translated("read the price list"):
        pages = client.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
        products = [json.loads(product) for page in pages for product in page["PriceList"]]
    found = {product["product"]["attributes"]["instanceType"]: usd_of(product) for product in products}
    return {name: usd for name, usd in found.items() if name in names and usd > 0}


def usd_of(product: dict[str, Any]) -> float:
    """The dearest price of a product's on-demand term; 0: it has none, and is not free for that."""
    terms = product.get("terms", {}).get("OnDemand", {}).values()
    rates = (rate for term in terms for rate in term["priceDimensions"].values())
    return max((float(rate["pricePerUnit"].get("USD", 0.0)) for rate in rates), default=0.0)


def _ask_history(account: Account, region: str, names: Sequence[str], since: float) -> Iterable[dict[str, Any]]:
    """The rows that were in force then and since; the newest of each type and zone comes first."""
    client = account.client("ec2", region)
    with translated("read the spot price history"):
        pages = client.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=list(names),
            ProductDescriptions=[_SYSTEM],
            StartTime=datetime.fromtimestamp(since, UTC),
        )
        return [row for page in pages for row in page["SpotPriceHistory"]]


def _read(file: Path) -> Prices | None:
    try:
        return from_json(Prices, file.read_text())
    except (FileNotFoundError, ValueError):  # an older version's, or none
        return None


def _read_history(file: Path) -> SpotHistory | None:
    try:
        return from_json(SpotHistory, file.read_text())
    except (FileNotFoundError, ValueError):
        return None


def _keep(file: Path, prices: Prices) -> Prices:
    _write(file, to_json(prices))
    return prices


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text)
    except OSError as error:
        raise CloudError(f"{file} cannot be written: {error}", "Is the disk full?") from error
