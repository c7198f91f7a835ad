"""What can be asked of a cloud account beside renting: whether everything is there, and what a price list says."""

from __future__ import annotations

import time
from pathlib import Path

from mlcd.catalog.price_list import fresh, read_price_list
from mlcd.core.machines import Offer
from mlcd.core.view import Finding
from mlcd.errors import UserError
from mlcd.settings import Settings

ACCOUNTS = ("aws", "ec2", "functions")  # names by which `mlcd check` knows an account


def check_account(settings: Settings, name: str = "aws") -> list[Finding]:
    """Everything that renting machines at AWS needs, or training on functions, each tried by itself."""
    if name == "functions":
        from mlcd.clouds.functions.checking import check_functions

        return list(check_functions(settings.functions, settings.home.absolute() / "functions"))
    from mlcd.clouds.ec2.checking import check_account

    return list(check_account(settings.ec2, settings.home, time.time()))


def listed_offers(settings: Settings, file: Path, cloud: str) -> list[Offer]:
    """The offers of a price list that are not too old; refused where all of them are."""
    offers = read_price_list(file, cloud)
    days = settings.ec2.max_price_age_days
    kept = fresh(offers, days, time.time())
    if offers and not kept:
        raise UserError(
            f"All prices of {file} are older than {days:g} days.",
            "Get a newer list, or raise ec2.max_price_age_days in the settings.",
        )
    return kept
