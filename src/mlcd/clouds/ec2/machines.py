"""Rents, finds and gives back instances, for the runner of one task."""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlcd.clouds.ec2.account import Account
from mlcd.clouds.ec2.boot import BASE, CONTROL, POWER_OFF, boot_script
from mlcd.clouds.ec2.errors import QUOTA, code_of, translated
from mlcd.clouds.ec2.ground import allowing, image, key_name, placement_group, security_group, subnets
from mlcd.clouds.ec2.prices import spot_prices
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.clouds.remote.base import BusyError, Machine, Notes, PartlyRentedError, Reach
from mlcd.clouds.remote.ssh import SshReach
from mlcd.core.machines import Deployment, Group, Offer
from mlcd.errors import CloudError, MlcdError, NoCapacityError

NOTICE_URL = "http://169.254.169.254"
ALIVE = ["pending", "running"]
JOB, TASK, LEASE = "mlcd:job", "mlcd:task", "mlcd:lease"
LAUNCH = "mlcd:launch"  # tells tasks apart that have the same id on different computers
KEY = "key"
_ZONE = "zone"
# "User initiated (2024-03-01 09:30:00 GMT)".
_ENDED = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")
YOUNG_SECONDS = 120.0  # an instance that AWS does not know may be too new for it


@dataclass(frozen=True)
class _Order:
    """What is to be rented in one call: so many machines of one type of a deployment."""

    task_id: str
    job_id: str
    deployment: Deployment
    group: Group
    count: int

    @property
    def offer(self) -> Offer:
        return self.group.offer

    @property
    def word(self) -> str:
        """What tells the call from that for the workers."""
        return f" {self.offer.instance.name}" if self.group.serves else ""

    @property
    def zone_note(self) -> str:
        """Where the zone is noted: those of the workers and of the servers may differ."""
        return _ZONE + self.word


class Ec2Machines:
    """The instances of an account, found again by their tags."""

    control = CONTROL
    notice_url = NOTICE_URL
    power_off = POWER_OFF

    def __init__(self, home: Path, settings: Ec2Settings, regions: Sequence[str], notes: Notes | None = None) -> None:
        self._home = home
        self._settings = settings
        self._regions = regions
        self._notes = notes
        self._account = Account(settings)
        self.lease_seconds = settings.lease_seconds
        self.lost_seconds = settings.lost_seconds
        self.keep_seconds = settings.keep_seconds
        self.python = settings.python

    def acquire(self, task_id: str, job_id: str, deployment: Deployment, had: Sequence[Machine]) -> Sequence[Machine]:
        """Those at hand and as many more as are needed, together in one zone that has room for them; the workers first.

        Where the zone of those at hand has no room they are not given up: the others come from another zone.
        """
        mine = {machine.id: machine for machine in (*self.find(task_id), *had)}
        together: list[Machine] = []
        for group in deployment.groups:
            there = [machine for machine in mine.values() if self._is_of(machine, group, deployment)][: group.nodes]
            zone = next((machine.zone for machine in (*together, *mine.values())), "")
            try:
                together += self._complete(task_id, job_id, deployment, group, there, zone)
            except MlcdError as error:
                if not together:
                    raise
                raise PartlyRentedError(error, together) from error
        return together

    def _complete(
        self, task_id: str, job_id: str, deployment: Deployment, group: Group, there: list[Machine], zone: str
    ) -> list[Machine]:
        missing = group.nodes - len(there)
        return there + (self._rent(_Order(task_id, job_id, deployment, group, missing), zone) if missing > 0 else [])

    @staticmethod
    def _is_of(machine: Machine, group: Group, deployment: Deployment) -> bool:
        """Whether a machine is one of the group; those rented before there were several types do not say theirs."""
        return machine.details.get("type", deployment.offer.instance.name) == group.offer.instance.name

    def locate(self, machines: Sequence[Machine]) -> Sequence[Machine]:
        """The same machines with their addresses, as far as these are known by now."""
        found: dict[str, Machine] = {}
        for region in {machine.details["region"] for machine in machines}:
            ids = [machine.id for machine in machines if machine.details["region"] == region]
            for one in self._instances(region, [{"Name": "instance-id", "Values": ids}]):
                found[one["InstanceId"]] = self._machine(one, region)
        return [
            replace(machine, host=there.host, address=there.address) if (there := found.get(machine.id)) else machine
            for machine in machines
        ]

    def find(self, task_id: str) -> Sequence[Machine]:
        """What is tagged with the task and still there; for a runner, what was rented by its own launch."""
        only = [{"Name": f"tag:{TASK}", "Values": [task_id]}]
        if self._notes is not None:
            only.append({"Name": f"tag:{LAUNCH}", "Values": [self._nonce()]})
        return [self._machine(one, region) for region in self._regions for one in self._instances(region, only)]

    def why_gone(self, machine: Machine) -> str:
        """AWS's reason for the end of an instance."""
        return str(self._described(machine).get("StateReason", {}).get("Message", ""))

    def ended_at(self, machine: Machine) -> float | None:
        """When it was terminated, where AWS says so: not of one that switched itself off."""
        one = self._described(machine)
        told = _ENDED.search(str(one.get("StateTransitionReason", "")))
        if told is None or one["State"]["Name"] in ALIVE:
            return None
        return datetime.fromisoformat(told[1]).replace(tzinfo=UTC).timestamp()

    def adopt(self, machines: Sequence[Machine], task_id: str) -> None:
        """Tag them with another task."""
        self._tag(machines, {TASK: task_id, LAUNCH: self._nonce()})

    @property
    def may_have_rented(self) -> bool:
        """Whether RunInstances was called and its answer is not known."""
        notes = self._notes.read_notes() if self._notes is not None else {}
        return any(value for name, value in notes.items() if name.startswith(_ZONE))

    def release(self, machines: Sequence[Machine]) -> None:
        """Terminate them; those that are gone are passed over."""
        for region, ids in _by_region(machines).items():
            if not self._terminate(region, ids):  # one that is not known, and AWS terminates none
                self._terminate_each(region, [machine for machine in machines if machine.id in ids])

    def _terminate(self, region: str, ids: Sequence[str]) -> bool:
        with allowing("InvalidInstanceID.NotFound"), translated("terminate instances"):
            self._account.client("ec2", region).terminate_instances(InstanceIds=list(ids))
            return True
        return False

    def _terminate_each(self, region: str, machines: Sequence[Machine]) -> None:
        """One by one. AWS may not know yet what it has just rented out: that is tried again by whoever asked."""
        unknown = [machine for machine in machines if not self._terminate(region, [machine.id])]
        young = [machine.id for machine in unknown if time.time() - machine.billed_from < YOUNG_SECONDS]
        if young:
            raise CloudError(f"AWS does not know {', '.join(young)} yet, and has not terminated them.")

    def renewed(self, machines: Sequence[Machine], until: float) -> None:
        """Write the lease's end into the tags, for whoever looks from elsewhere."""
        self._tag(machines, {LEASE: f"{until:.0f}"})

    def reach(self, machine: Machine) -> Reach:
        """By ssh, with our own key."""
        known = self._home / "known-hosts" / machine.id
        return SshReach(machine.host, self._settings.user, self._home / KEY, known, BASE)

    # -------------------------------------------------------------------------------------------- renting

    def _rent(self, order: _Order, zone: str) -> list[Machine]:
        """Rent them now; what AWS was asked too often for is not rented, and not paid for while we wait to ask again."""
        asked_before = bool(self._noted("rented_at"))
        if not asked_before:
            self._note("rented_at", f"{time.time():.3f}")
        try:
            return self._rent_in_zones(order, zone)
        except BusyError:
            if not asked_before:
                self._note(order.zone_note, "")
                self._note("rented_at", "")
            raise

    def _rent_in_zones(self, order: _Order, zone: str) -> list[Machine]:
        """In the first zone that has room, the wanted one first; one once tried is noted: a kill leads to no other one."""
        request = self._request(order)
        first = self._noted(order.zone_note) or zone
        zones = sorted(self._zones(order.offer), key=lambda net: bool(net["AvailabilityZone"] != first))
        refusal = NoCapacityError(f"No zone of {order.offer.region} sells {order.offer.name}.")
        for net in zones:
            self._note(order.zone_note, net["AvailabilityZone"])
            try:
                return self._run(request, order, net)
            except NoCapacityError as error:
                # That a zone never had the type says less than that another one is out of it.
                if code_of(error) != "Unsupported" or code_of(refusal) in ("", "Unsupported"):
                    refusal = error
                if code_of(error) in QUOTA:
                    break  # no zone has more of it
        self._note(order.zone_note, "")
        raise refusal

    def _run(self, request: dict[str, Any], order: _Order, net: dict[str, Any]) -> list[Machine]:
        region, zone = order.offer.region, net["AvailabilityZone"]
        account, count = self._account, order.count
        group = security_group(account, region, net["VpcId"], self._settings.ssh_from, self._settings.let_in)
        card = {
            "DeviceIndex": 0,
            "SubnetId": net["SubnetId"],
            "AssociatePublicIpAddress": True,
            "Groups": [group],
        }
        together = order.deployment.nodes > 1 and _close_together(order.deployment)
        place = {"Placement": {"GroupName": placement_group(account, region, zone)}} if together else {}
        token = hashlib.sha256(f"{request['ClientToken']} {zone} {count}".encode()).hexdigest()[:60]
        with translated(f"run {count} × {order.offer.name} in {zone}"):
            made = account.client("ec2", region).run_instances(
                **{**request, **place, "ClientToken": token, "NetworkInterfaces": [card]}
            )
        return [self._machine(one, region) for one in made["Instances"]]

    def _request(self, order: _Order) -> dict[str, Any]:
        settings, offer = self._settings, order.offer
        ami, disk = image(self._account, offer.region, settings.image, offer.instance)
        tags = {
            "Name": f"mlcd {order.task_id}",
            JOB: order.job_id,
            TASK: order.task_id,
            LAUNCH: self._nonce(),
            LEASE: f"{float(self._noted('rented_at')) + settings.lease_seconds:.0f}",
            "mlcd:deployment": str(order.deployment),
        }
        words = [{"Key": key, "Value": value[:256]} for key, value in tags.items()]
        spot = {
            "SpotInstanceType": "one-time",
            "InstanceInterruptionBehavior": "terminate",
        }
        market = {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": spot}} if offer.spot else {}
        drive = {"VolumeSize": settings.disk_gib, "VolumeType": "gp3", "DeleteOnTermination": True}
        return {
            "ImageId": ami,
            "InstanceType": offer.instance.name,
            "MinCount": order.count,
            "MaxCount": order.count,
            "KeyName": key_name(self._account, offer.region, self._home / KEY),
            "ClientToken": f"{order.task_id} {self._nonce()}{order.word}",
            "UserData": boot_script(settings.user, settings.lease_seconds),
            "InstanceInitiatedShutdownBehavior": "terminate",
            "BlockDeviceMappings": [{"DeviceName": disk, "Ebs": drive}],
            "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled"},
            "TagSpecifications": [
                {"ResourceType": "instance", "Tags": words},
                {"ResourceType": "volume", "Tags": words},
            ],
            **market,
        }

    def _zones(self, offer: Offer) -> list[dict[str, Any]]:
        """Subnets to try in turn: for spot the cheapest zone first."""
        nets = subnets(self._account, offer.region, self._settings.subnets)
        if not offer.spot:
            return nets
        prices = self._spot(offer.region, offer.instance.name)
        return sorted(nets, key=lambda net: prices.get(net["AvailabilityZone"], float("inf")))

    def _spot(self, region: str, name: str) -> dict[str, float]:
        return spot_prices(self._account, region, [name], self._home / "prices", time.time()).spot.get(name, {})

    # -------------------------------------------------------------------------------------- small things

    def _instances(self, region: str, only: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        filters = [*only, {"Name": "instance-state-name", "Values": ALIVE}]
        with translated("list its instances"):
            pages = self._account.client("ec2", region).get_paginator("describe_instances")
            found = [group for page in pages.paginate(Filters=filters) for group in page["Reservations"]]
        return [one for group in found for one in group["Instances"]]

    def _described(self, machine: Machine) -> dict[str, Any]:
        """What AWS tells of one, dead or alive; nothing of one that it has forgotten."""
        with allowing("InvalidInstanceID.NotFound"), translated("describe an instance"):
            client = self._account.client("ec2", machine.details["region"])
            found = client.describe_instances(InstanceIds=[machine.id])["Reservations"]
            return dict(next((one for each in found for one in each["Instances"]), {}))
        return {}

    def _machine(self, one: dict[str, Any], region: str) -> Machine:
        zone = str(one.get("Placement", {}).get("AvailabilityZone", ""))
        details = {"region": region, "type": one["InstanceType"]}
        if one.get("InstanceLifecycle") == "spot":
            price = self._spot(region, one["InstanceType"]).get(zone)
            details |= {"usd_per_hour": f"{price:.6f}"} if price else {}
        return Machine(
            id=one["InstanceId"],
            host=str(one.get("PublicIpAddress") or ""),
            address=str(one.get("PrivateIpAddress") or ""),
            billed_from=float(self._noted("rented_at") or one["LaunchTime"].timestamp()),
            zone=zone,
            details=details,
        )

    def _tag(self, machines: Sequence[Machine], tags: Mapping[str, str]) -> None:
        words = [{"Key": key, "Value": value} for key, value in tags.items()]
        for region, ids in _by_region(machines).items():
            with translated("tag instances"):
                self._account.client("ec2", region).create_tags(Resources=ids, Tags=words)

    def _nonce(self) -> str:
        """What makes the tokens of this task its own, the same for every runner of it."""
        if not self._noted("nonce"):
            self._note("nonce", uuid.uuid4().hex)
        return self._noted("nonce")

    def _note(self, name: str, value: str) -> None:
        if self._notes is not None:
            self._notes.note(name, value)

    def _noted(self, name: str) -> str:
        return self._notes.read_notes().get(name, "") if self._notes is not None else ""


def open_machines(home: Path, options: Mapping[str, Any], notes: Notes) -> Ec2Machines:
    """The instances of one region, for a runner."""
    return Ec2Machines(home, Ec2Settings(**options["settings"]), [options["region"]], notes)


def _by_region(machines: Sequence[Machine]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for machine in machines:
        grouped.setdefault(machine.details["region"], []).append(machine.id)
    return grouped


def _close_together(deployment: Deployment) -> bool:
    """Whether machines of its types can be placed close together: those with credits and the oldest cannot."""
    return not any(offer.instance.name.startswith(("t", "m1.", "c1.", "m2.", "m3.")) for offer in deployment.types)
