"""`mlcd check aws`: everything that renting machines needs, each tried by itself; nothing is rented."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mlcd.catalog.ec2_types import listed_types
from mlcd.clouds.ec2.account import Account
from mlcd.clouds.ec2.errors import code_of, translated
from mlcd.clouds.ec2.ground import image, subnets
from mlcd.clouds.ec2.kinds import describe, wanted
from mlcd.clouds.ec2.prices import on_demand_prices, spot_prices
from mlcd.clouds.ec2.quotas import family_of, read_quotas
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.core.machines import InstanceType
from mlcd.core.view import Finding
from mlcd.errors import MlcdError

POLICY = "docs/how-to/ec2.md lists the permissions as a policy to attach."
_UNAUTHORIZED = ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException")

# What is tried without being done; an error other than a missing permission says that the permission is there.
_TRIALS: dict[str, dict[str, Any]] = {
    "run_instances": {"MinCount": 1, "MaxCount": 1, "InstanceType": "t3.micro"},
    "terminate_instances": {"InstanceIds": ["i-00000000000000000"]},
    "create_tags": {"Resources": ["i-00000000000000000"], "Tags": [{"Key": "mlcd", "Value": "check"}]},
    "import_key_pair": {"KeyName": "mlcd-check", "PublicKeyMaterial": b"ssh-ed25519 AAAA"},
    "create_security_group": {"GroupName": "mlcd-check", "Description": "mlcd check"},
    "authorize_security_group_ingress": {"GroupId": "sg-00000000000000000"},
    "create_placement_group": {"GroupName": "mlcd-check", "Strategy": "cluster"},
    "describe_instances": {},
    "describe_key_pairs": {},
    "describe_security_groups": {},
}


def check_account(settings: Ec2Settings, home: Path, now: float) -> Iterator[Finding]:
    """What was found, one thing after the other; without credentials the rest is not tried."""
    account = Account(settings)
    who = _found("credentials", lambda: _identity(account))
    yield who
    if not who.ok:
        return
    for region in account.regions:
        yield from _check_region(account, region, settings, home, now)


def _check_region(account: Account, region: str, settings: Ec2Settings, home: Path, now: float) -> Iterator[Finding]:
    names = wanted([offer.instance.name for offer in listed_types()], settings.types)
    for name in _TRIALS:
        yield permission(account, region, name)
    yield _found(f"{region}: subnets", lambda: f"{len(subnets(account, region, settings.subnets))} zones")
    plain = InstanceType("t3.micro")
    yield _found(f"{region}: image", lambda: image(account, region, settings.image, plain)[0])
    yield _found(f"{region}: instance types", lambda: f"{len(describe(account, region, names))} of {len(names)} types")
    yield _found(f"{region}: quotas", lambda: _quotas(account, region, names))
    cache = home / "ec2" / "prices"
    yield _found(
        f"{region}: list prices",
        lambda: f"{len(on_demand_prices(account, region, names, cache, now).on_demand)} prices",
    )
    yield _found(
        f"{region}: spot prices",
        lambda: f"{sum(map(bool, spot_prices(account, region, names, cache, now).spot.values()))} types",
    )


def permission(account: Account, region: str, name: str) -> Finding:
    """Whether the account may do something, tried without doing it."""
    words = "".join(part.capitalize() for part in name.split("_"))
    what = f"{region}: ec2:{words}"
    try:
        with translated(f"try {words}"):
            getattr(account.client("ec2", region), name)(DryRun=True, **_TRIALS[name])
    except MlcdError as error:
        if code_of(error) in _UNAUTHORIZED:
            return Finding(what, False, f"the permission ec2:{words} is missing", POLICY)
        if not code_of(error):
            return Finding(what, False, error.message, error.hint)
    return Finding(what, True, "allowed")


def _identity(account: Account) -> str:
    with translated("say who we are"):
        who = account.client("sts", account.regions[0]).get_caller_identity()
    return f"account {who['Account']}, {who['Arn']}"


def _quotas(account: Account, region: str, names: list[str]) -> str:
    families = {family_of(name) for name in names}
    quotas = read_quotas(account, region, families)
    if not quotas.free_vcpus:
        with translated("read its quotas"):  # none could be read: let AWS say why
            account.client("service-quotas", region).list_service_quotas(ServiceCode="ec2", MaxResults=1)
    return ", ".join(
        f"{family}{' spot' if spot else ''}: {free:g} vCPUs free"
        for (family, spot), free in sorted(quotas.free_vcpus.items())
    )


def _found(what: str, ask: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, ask())
    except MlcdError as error:
        return Finding(what, False, error.message, error.hint)
