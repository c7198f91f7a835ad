"""`mlcd check functions`: what renting a machine for the parameter store needs, each tried by itself; nothing is rented."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mlcd.clouds.ec2.account import Account
from mlcd.clouds.ec2.checking import check_account
from mlcd.clouds.ec2.errors import translated
from mlcd.clouds.ec2.ground import listed, subnets
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.core.view import Finding
from mlcd.errors import MlcdError, UserError
from mlcd.settings import Settings
from mlcd_functions.rented.plan import PORT, binary_for_machines, ec2_settings, make_plan
from mlcd_functions.settings import FunctionsSettings

_NAME = "parameter store"


def check_store(settings: Settings, ours: FunctionsSettings) -> Iterator[Finding]:
    """What was found, one thing after the other; without credentials the rest is not tried."""
    ec2 = ec2_settings(settings, ours)
    account = Account(ec2)
    yield _found("program", lambda: f"{binary_for_machines().stat().st_size >> 10:,} KiB, sent to the machine")
    rights = [replace(each, what=f"{_NAME}: {each.what}") for each in check_account(ec2, settings.home, time.time())]
    yield from rights
    if rights[0].ok:
        yield _found("machine", lambda: _machine(settings, ours))
        if ec2.subnets:  # the default ones have a way
            yield _found("way from here", lambda: _way_here(account, ec2))
        if ours.security_groups:
            yield _found("way from functions", lambda: _way_of_functions(account, ours))


def _machine(settings: Settings, ours: FunctionsSettings) -> str:
    offer = make_plan(settings, ours).offer
    return f"{offer.name}, {offer.instance.memory_gib:g} GiB, ${offer.whole_usd_per_hour:.4f} an hour"


def _way_here(account: Account, ec2: Ec2Settings) -> str:
    """The machine is reached by ssh at its public address, which needs a route of its subnet to the internet."""
    region = account.regions[0]
    found = subnets(account, region, ec2.subnets)
    closed = [net["SubnetId"] for net in found if not _is_public(account, region, net)]
    if closed:
        raise UserError(
            f"Subnets without a route to an internet gateway: {', '.join(closed)}. The machine is not reached there.",
            "Name others of the same VPC with functions.store_subnets.",
        )
    return f"{len(found)} subnets with a route to the internet"


def _is_public(account: Account, region: str, net: dict[str, Any]) -> bool:
    """By the route table of the subnet, or else the main one of its VPC."""
    own = _routes(account, region, "association.subnet-id", net["SubnetId"])
    main = [{"Name": "association.main", "Values": ["true"]}]
    tables = own or _routes(account, region, "vpc-id", net["VpcId"], main)
    return any(str(route.get("GatewayId", "")).startswith("igw-") for table in tables for route in table["Routes"])


def _routes(account: Account, region: str, name: str, value: str, more: Any = ()) -> list[dict[str, Any]]:
    only = [{"Name": name, "Values": [value]}, *more]
    with translated("list its route tables"):
        return list(account.client("ec2", region).describe_route_tables(Filters=only)["RouteTables"])


def _way_of_functions(account: Account, ours: FunctionsSettings) -> str:
    """The machine lets the functions' groups in; these must let the functions out."""
    groups = listed(ours.security_groups)
    with translated("describe the functions' security groups"):
        client = account.client("ec2", ours.region)
        found = client.describe_security_groups(GroupIds=groups)["SecurityGroups"]
    if not any(_lets_out(rule) for group in found for rule in group["IpPermissionsEgress"]):
        raise UserError(
            f"{ours.security_groups} let nothing out to port {PORT}.", f"Add a rule for outgoing TCP to port {PORT}."
        )
    return f"the functions may leave to port {PORT}"


def _lets_out(rule: dict[str, Any]) -> bool:
    every = rule["IpProtocol"] == "-1"
    return every or bool(rule["IpProtocol"] == "tcp" and rule["FromPort"] <= PORT <= rule["ToPort"])


def _found(what: str, ask: Any) -> Finding:
    name = f"{_NAME}: {what}"
    try:
        return Finding(name, True, ask())
    except MlcdError as error:
        return Finding(name, False, error.message, error.hint)
