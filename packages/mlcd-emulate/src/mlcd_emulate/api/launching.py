"""RunInstances as EC2 does it: tokens that launch once, quotas, capacity, zones, spot.

A request is admitted here and then carried out by moto, whose own function is asked for the instances; what was
decided travels with the request's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network
from typing import Any

from mlcd_emulate.api.answering import Refusal
from mlcd_emulate.api.asking import Asked
from mlcd_emulate.api.faults import ApiFaults
from mlcd_emulate.api.groups import PlacementGroups
from mlcd_emulate.api.prices import spot_price
from mlcd_emulate.api.quotas import Quotas
from mlcd_emulate.api.world import World, facts_of, set_state, zones_selling


@dataclass(frozen=True)
class Launch:
    """What a request for instances came to."""

    asked: Asked
    count: int = 0
    subnet_id: str = ""


_LAUNCH: ContextVar[Launch] = ContextVar("launch")


class Launching:
    """Who asks for instances comes here, one at a time: with the lock of the world."""

    def __init__(self, world: World, faults: ApiFaults, groups: PlacementGroups, quotas: Quotas) -> None:
        self._world, self._faults, self._groups, self._quotas = world, faults, groups, quotas
        self._tokens: dict[tuple[str, str], tuple[Mapping[str, str], Any]] = {}

    def admit(self, asked: Asked) -> None:
        """Decide what the request gets, or refuse it; a token seen before gets what it got."""
        if self._seen(asked) is not None:
            _LAUNCH.set(Launch(asked))
            return
        kind = asked.parameters.get("InstanceType", "m1.small")
        if facts_of(kind) is None:
            raise Refusal("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType.")
        self._check_names(asked)
        allowed = self._allowed(asked, kind)
        subnet = self._subnet(asked, kind)
        _LAUNCH.set(Launch(asked, min(allowed, _number(asked, "MaxCount")), subnet.id))

    def prepare(self, backend: Any) -> None:
        """Let moto's region launch through here."""
        backend.run_instances = partial(self._run, backend.run_instances)

    def _run(
        self, moto_run: Any, image_id: str, count: int, user_data: Any, groups: Any, **wanted: Any
    ) -> Any:
        launch = _LAUNCH.get()
        seen = self._seen(launch.asked)
        if seen is not None:
            return seen
        wanted["subnet_id"] = launch.subnet_id
        reservation = moto_run(image_id, launch.count, user_data, groups, **wanted)
        for instance in reservation.instances:
            _finish(instance, launch.asked)
        self._remember(launch.asked, reservation)
        return reservation

    def _seen(self, asked: Asked) -> Any:
        """The reservation that this request's token got before."""
        token = asked.parameters.get("ClientToken", "")
        before = self._tokens.get((asked.region, token))
        if not token or before is None:
            return None
        parameters, reservation = before
        if parameters != asked.parameters:
            message = (
                f"The parameters of the request differ from those of the first with client token {token}."
            )
            raise Refusal("IdempotentParameterMismatch", message)
        return reservation

    def _remember(self, asked: Asked, reservation: Any) -> None:
        token = asked.parameters.get("ClientToken", "")
        if token:
            self._tokens[asked.region, token] = (dict(asked.parameters), reservation)

    def _check_names(self, asked: Asked) -> None:
        key, group = asked.parameters.get("KeyName"), asked.parameters.get("Placement.GroupName")
        if key and key not in self._world.region(asked.region).key_pairs:
            raise Refusal("InvalidKeyPair.NotFound", f"The key pair '{key}' does not exist")
        if group:
            self._groups.require(asked.region, group)

    def _allowed(self, asked: Asked, kind: str) -> int:
        """How many instances the quota, the price and the computer allow, at least as many as must be."""
        spot, alive, least = is_spot(asked), self._world.alive(), _number(asked, "MinCount")
        allowed = self._quotas.allowed(kind, spot, alive)
        if allowed < least:
            raise _over_quota(self._quotas.limit(kind), spot)
        most = float(asked.parameters.get("InstanceMarketOptions.SpotOptions.MaxPrice") or "inf")
        if spot and most < spot_price(kind):
            raise Refusal(
                "SpotMaxPriceTooLow", f"Your Spot request price of {most} is lower than the current price."
            )
        if self._quotas.room(kind, alive) < least:
            raise _no_capacity(kind, "any zone: this computer's cores are all in use")
        return min(allowed, self._quotas.room(kind, alive))

    def _subnet(self, asked: Asked, kind: str) -> Any:
        """The subnet that was asked for, or the default one of a zone with capacity."""
        backend = self._world.region(asked.region)
        selling = zones_selling(asked.region, kind)
        named = asked.parameters.get("SubnetId") or asked.parameters.get("NetworkInterface.1.SubnetId")
        zone = asked.parameters.get("Placement.AvailabilityZone")
        if named:
            choices = [self._routed(backend.get_subnet(named))]
        else:
            defaults = backend.get_default_subnets()
            choices = [defaults[each] for each in ([zone] if zone else selling) if each in defaults]
        for subnet in choices:
            if subnet.availability_zone not in selling:
                raise Refusal(
                    "Unsupported", f"{kind} is not supported in the zone {subnet.availability_zone}."
                )
            if self._faults.has_capacity(kind, subnet.availability_zone):
                return subnet
        raise _no_capacity(kind, f"the Availability Zone you requested ({zone or asked.region})")

    def _routed(self, subnet: Any) -> Any:
        if not IPv4Network(subnet.cidr_block).subnet_of(self._world.network):
            message = f"This emulated EC2 reaches addresses of {self._world.network}; make subnets of those."
            raise Refusal("InvalidSubnet.Range", message)
        return subnet


def is_spot(asked: Asked) -> bool:
    """Whether a request is for spot instances."""
    return asked.parameters.get("InstanceMarketOptions.MarketType") == "spot"


def _finish(instance: Any, asked: Asked) -> None:
    """What moto leaves out: pending until a host boots, and reachable at the address that it has."""
    set_state(instance, "pending")
    instance.placement.group_name = asked.parameters.get("Placement.GroupName", "")
    card = instance.nics[0]
    instance.security_groups = instance.security_groups or list(card.group_set)
    if asked.parameters.get("NetworkInterface.1.AssociatePublicIpAddress") != "false":
        card.public_ip = card.private_ip_address


def _number(asked: Asked, name: str) -> int:
    value = asked.parameters.get(name, "1")
    if not value.isdigit() or not int(value):
        raise Refusal("InvalidParameterValue", f"Value ({value}) for parameter {name} is invalid.")
    return int(value)


def _over_quota(limit: int, spot: bool) -> Refusal:
    if spot:
        return Refusal("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    return Refusal(
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the instance "
        "bucket that the specified instance type belongs to.",
    )


def _no_capacity(kind: str, where: str) -> Refusal:
    return Refusal(
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {kind} capacity in {where}.",
        500,
    )
