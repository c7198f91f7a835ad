"""What EC2 sells to this account now: types × prices, never more nodes than the quotas allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mlcd.catalog.ec2_types import listed_types
from mlcd.catalog.price_list import fresh, read_price_list
from mlcd.clouds.ec2.account import Account
from mlcd.clouds.ec2.billing import LEAST_SECONDS, extras_usd_per_hour
from mlcd.clouds.ec2.kinds import Kind, describe, wanted
from mlcd.clouds.ec2.prices import Prices, on_demand_prices, spot_prices
from mlcd.clouds.ec2.quotas import Quotas, family_of, read_quotas
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.core.machines import Offer


def make_offers(account: Account, settings: Ec2Settings, cache: Path, now: float) -> list[Offer]:
    """The offers of all regions, the cheapest first."""
    names = wanted([listed.instance.name for listed in listed_types()], settings.types)
    offers = [offer for region in account.regions for offer in _of_region(account, region, names, settings, cache, now)]
    return sorted(offers, key=lambda offer: (offer.usd_per_hour, offer.region, offer.name))


def _of_region(
    account: Account, region: str, names: Sequence[str], settings: Ec2Settings, cache: Path, now: float
) -> Iterator[Offer]:
    kinds = describe(account, region, names)
    sold = [kind.instance.name for kind in kinds]
    families = {family_of(name) for name in sold}
    quotas = read_quotas(account, region, families)
    listed = _list_prices(account, region, sold, settings, cache, now)
    spot = spot_prices(account, region, [kind.instance.name for kind in kinds if kind.spot], cache, now)
    extras = extras_usd_per_hour(settings.disk_gib)
    for kind in kinds:
        name = kind.instance.name
        if listed.on_demand.get(name, 0.0) > 0:
            yield from _offer(kind, region, listed.on_demand[name], quotas, listed, extras)
        zones = [usd for usd in spot.spot.get(name, {}).values() if usd > 0]
        if zones:
            losses = settings.spot_losses_per_hour
            yield from _offer(kind, region, min(zones), quotas, spot, extras, spot=True, losses_per_hour=losses)


def _list_prices(
    account: Account, region: str, names: Sequence[str], settings: Ec2Settings, cache: Path, now: float
) -> Prices:
    """AWS's prices, or those of the user's own list where there is one."""
    if not settings.prices:
        return on_demand_prices(account, region, names, cache, now)
    offers = fresh(read_price_list(Path(settings.prices)), settings.max_price_age_days, now)
    ours = {
        offer.instance.name: offer.usd_per_hour for offer in offers if not offer.spot and offer.region in ("", region)
    }
    return Prices(now, settings.prices, on_demand=ours)


def _offer(
    kind: Kind,
    region: str,
    usd_per_hour: float,
    quotas: Quotas,
    prices: Prices,
    extras_usd_per_hour: float,
    spot: bool = False,
    losses_per_hour: float = 0.0,
) -> Iterator[Offer]:
    most = quotas.most_nodes(kind.instance.name, kind.instance.vcpus, spot)
    if most < 1:
        return  # the quota has no room for even one
    yield Offer(
        cloud="ec2",
        instance=kind.instance,
        usd_per_hour=usd_per_hour,
        max_nodes=most,
        region=region,
        spot=spot,
        priced_at=prices.date,
        source=prices.source,
        losses_per_hour=losses_per_hour,
        extras_usd_per_hour=extras_usd_per_hour,
        least_seconds=LEAST_SECONDS,
        mixes="" if spot else f"ec2/{region}",
        pool=f"{region}/{family_of(kind.instance.name)}",
        shared_vcpus=quotas.shared_vcpus(kind.instance.name, spot),
    )
