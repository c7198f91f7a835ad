"""RunInstances as EC2 does it: tokens that launch once, quotas, capacity, zones, spot.

A request is admitted here and then carried out by moto, whose own function is request for the instances; what was
decided travels with the request's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network
from typing import Any

from mlcd_emulate.api.account import Account, facts_of, set_state, zones_selling
from mlcd_emulate.api.faults import ApiFaults
from mlcd_emulate.api.groups import PlacementGroups
from mlcd_emulate.api.prices import spot_price
from mlcd_emulate.api.quotas import Quotas
from mlcd_emulate.api.request import ApiRequest
from mlcd_emulate.api.response import ApiError


@dataclass(frozen=True)
class Launch:
    """What a request for instances came to."""

    request: ApiRequest
    count: int = 0
    subnet_id: str = ""


_LAUNCH: ContextVar[Launch] = ContextVar("launch")


class Launcher:
    """Admits requests for instances, one at a time: its caller holds the lock of the account."""

    def __init__(self, account: Account, faults: ApiFaults, groups: PlacementGroups, quotas: Quotas) -> None:
        self._account, self._faults, self._groups, self._quotas = account, faults, groups, quotas
        self._tokens: dict[tuple[str, str], tuple[Mapping[str, str], Any]] = {}

    def admit(self, request: ApiRequest) -> None:
        """Decide what the request gets, or refuse it; a token seen before gets what it got."""
        if self._seen(request) is not None:
            _LAUNCH.set(Launch(request))
            return
        kind = request.parameters.get("InstanceType", "m1.small")
        if facts_of(kind) is None:
            raise ApiError("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType.")
        self._check_names(request)
        allowed = self._allowed(request, kind)
        subnet = self._subnet(request, kind)
        _LAUNCH.set(Launch(request, min(allowed, _number(request, "MaxCount")), subnet.id))

    def prepare(self, backend: Any) -> None:
        """Let moto's region launch through here."""
        backend.run_instances = partial(self._run, backend.run_instances)

    def _run(self, moto_run: Any, image_id: str, count: int, user_data: Any, groups: Any, **wanted: Any) -> Any:
        launch = _LAUNCH.get()
        seen = self._seen(launch.request)
        if seen is not None:
            return seen
        wanted["subnet_id"] = launch.subnet_id
        reservation = moto_run(image_id, launch.count, user_data, groups, **wanted)
        for instance in reservation.instances:
            _finish(instance, launch.request)
        self._remember(launch.request, reservation)
        return reservation

    def _seen(self, request: ApiRequest) -> Any:
        """The reservation that this request's token got before."""
        token = request.parameters.get("ClientToken", "")
        before = self._tokens.get((request.region, token))
        if not token or before is None:
            return None
        parameters, reservation = before
        if parameters != request.parameters:
            message = f"The parameters of the request differ from those of the first with client token {token}."
            raise ApiError("IdempotentParameterMismatch", message)
        return reservation

    def _remember(self, request: ApiRequest, reservation: Any) -> None:
        token = request.parameters.get("ClientToken", "")
        if token:
            self._tokens[request.region, token] = (dict(request.parameters), reservation)

    def _check_names(self, request: ApiRequest) -> None:
        key, group = request.parameters.get("KeyName"), request.parameters.get("Placement.GroupName")
        if key and key not in self._account.region(request.region).key_pairs:
            raise ApiError("InvalidKeyPair.NotFound", f"The key pair '{key}' does not exist")
        if group:
            self._groups.require(request.region, group)

    def _allowed(self, request: ApiRequest, kind: str) -> int:
        """How many instances the quota, the price and the computer allow, at least as many as must be."""
        spot, alive, least = is_spot(request), self._account.alive(), _number(request, "MinCount")
        allowed = self._quotas.allowed(kind, spot, alive)
        if allowed < least:
            raise _over_quota(self._quotas.limit(kind), spot)
        most = float(request.parameters.get("InstanceMarketOptions.SpotOptions.MaxPrice") or "inf")
        if spot and most < spot_price(kind):
            raise ApiError("SpotMaxPriceTooLow", f"Your Spot request price of {most} is lower than the current price.")
        if self._quotas.room(kind, alive) < least:
            raise _no_capacity(kind, "any zone: this computer's cores are all in use")
        return min(allowed, self._quotas.room(kind, alive))

    def _subnet(self, request: ApiRequest, kind: str) -> Any:
        """The subnet that the request names, or the default one of a zone with capacity."""
        backend = self._account.region(request.region)
        selling = zones_selling(request.region, kind)
        named = request.parameters.get("SubnetId") or request.parameters.get("NetworkInterface.1.SubnetId")
        zone = request.parameters.get("Placement.AvailabilityZone")
        if named:
            choices = [self._routed(backend.get_subnet(named))]
        else:
            defaults = backend.get_default_subnets()
            choices = [defaults[each] for each in ([zone] if zone else selling) if each in defaults]
        for subnet in choices:
            if subnet.availability_zone not in selling:
                raise ApiError("Unsupported", f"{kind} is not supported in the zone {subnet.availability_zone}.")
            if self._faults.has_capacity(kind, subnet.availability_zone):
                return subnet
        raise _no_capacity(kind, f"the Availability Zone you requested ({zone or request.region})")

    def _routed(self, subnet: Any) -> Any:
        if not IPv4Network(subnet.cidr_block).subnet_of(self._account.network):
            message = f"This emulated EC2 reaches addresses of {self._account.network}; make subnets of those."
            raise ApiError("InvalidSubnet.Range", message)
        return subnet


def is_spot(request: ApiRequest) -> bool:
    """Whether a request is for spot instances."""
    return request.parameters.get("InstanceMarketOptions.MarketType") == "spot"


def _finish(instance: Any, request: ApiRequest) -> None:
    """What moto leaves out: pending until a host boots, and reachable at the address that it has."""
    set_state(instance, "pending")
    instance.placement.group_name = request.parameters.get("Placement.GroupName", "")
    card = instance.nics[0]
    instance.security_groups = instance.security_groups or list(card.group_set)
    if request.parameters.get("NetworkInterface.1.AssociatePublicIpAddress") != "false":
        card.public_ip = card.private_ip_address


def _number(request: ApiRequest, name: str) -> int:
    value = request.parameters.get(name, "1")
    if not value.isdigit() or not int(value):
        raise ApiError("InvalidParameterValue", f"Value ({value}) for parameter {name} is invalid.")
    return int(value)


def _over_quota(limit: int, spot: bool) -> ApiError:
    if spot:
        return ApiError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    return ApiError(
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the instance "
        "bucket that the specified instance type belongs to.",
    )


def _no_capacity(kind: str, where: str) -> ApiError:
    return ApiError(
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {kind} capacity in {where}.",
        500,
    )
