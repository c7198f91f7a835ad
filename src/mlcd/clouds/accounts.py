"""What can be asked of a cloud beside renting: whether everything is there, and what a price list says."""

from __future__ import annotations

import time
from pathlib import Path

from mlcd import registry
from mlcd.catalog.price_list import fresh, read_price_list
from mlcd.clouds.base import CloudPlugin
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.core.machines import Offer
from mlcd.core.view import Finding
from mlcd.errors import UserError
from mlcd.settings import Settings


def is_cloud(name: str) -> bool:
    """Whether `mlcd check` knows a cloud by that name, or by that alias."""
    return registry.cloud_name(name) in (*registry.names("clouds"), *registry.OPTIONAL["clouds"])


def check_cloud(settings: Settings, name: str) -> list[Finding]:
    """Everything that the cloud needs, each tried by itself; nothing is rented."""
    return plugin_of(registry.cloud_name(name)).findings(settings)


def plugin_of(name: str) -> CloudPlugin:
    """What a cloud's entry point says of it; a plain function says how to open it and nothing else."""
    loaded = registry.load("clouds", name)
    return loaded if isinstance(loaded, CloudPlugin) else CloudPlugin(name, loaded)


def is_this_computer(settings: Settings, name: str) -> bool:
    """Whether the cloud is the computer of whoever asks, which can be looked at before anything starts."""
    if name not in registry.loadable("clouds"):
        return False
    address = plugin_of(name).address
    return address is not None and address(settings) == "local"


def listed_offers(settings: Settings, file: Path, cloud: str) -> list[Offer]:
    """The offers of a price list that are not too old; refused where all of them are."""
    offers = read_price_list(file, cloud)
    days = settings.of(Ec2Settings).max_price_age_days
    kept = fresh(offers, days, time.time())
    if offers and not kept:
        raise UserError(
            f"All prices of {file} are older than {days:g} days.",
            "Get a newer list, or raise ec2.max_price_age_days in the settings.",
        )
    return kept
