"""moto's memory of regions, instances, images and addresses, made to fit the emulation.

moto keeps everything in this process; what is changed of it is changed here: the default VPC gets the addresses
that the emulation routes, images exist that people ask for, and new instances are pending until a host boots.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import Ami
from moto.ec2.models.instance_types import (
    INSTANCE_TYPE_OFFERINGS,
    INSTANCE_TYPES,
    InstanceTypeBackend,
)
from moto.ec2.models.instances import StateReason

from mlcd_emulate.api.response import ApiError
from mlcd_emulate.image import DEFAULT_USER

ACCOUNT_ID = DEFAULT_ACCOUNT_ID
ALIVE = ("pending", "running")
_ZONE_PREFIX = 22  # 1019 hosts a zone; eight regions of eight zones fit
_ZONES_A_REGION = 8
_CODES = {"pending": 0, "running": 16}
_IMAGES = {  # id → owner, name: every one boots the same host
    "ami-0e301ab0e301ab022": (
        "099720109477",
        "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20250101",
    ),
    "ami-0e301ab0e301ab024": (
        "099720109477",
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20250101",
    ),
    "ami-0e301ab0e301ab0d1": (
        "898082745236",
        "Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.7 (Ubuntu 22.04) 20250601",
    ),
}


class Account:
    """The regions in use, and every instance in them."""

    def __init__(self, network: IPv4Network) -> None:
        self.network = network
        self._blocks = iter(network.subnets(new_prefix=_ZONE_PREFIX))
        self._regions: dict[str, Any] = {}
        self.lock = threading.RLock()  # whoever changes what instances there are, and how they stand

    def region(self, name: str, prepare: Callable[[Any], None] = lambda backend: None) -> Any:
        """moto's memory of a region, made to fit when it is first used."""
        with self.lock:
            if name not in self._regions:
                backend = _backend(name)
                self._readdress(backend)
                _add_images(backend)
                prepare(backend)
                self._regions[name] = backend
            return self._regions[name]

    def instances(self) -> Iterator[Any]:
        """Every instance of every region."""
        for backend in list(self._regions.values()):
            for reservation in list(backend.reservations.values()):
                yield from list(reservation.instances)

    def alive(self) -> list[Any]:
        """The instances that are to have a host."""
        return [each for each in self.instances() if each.state in ALIVE]

    def public_keys(self, instance: Any) -> list[str]:
        """Who may enter this instance."""
        pair = instance.ec2_backend.key_pairs.get(instance.key_name) if instance.key_name else None
        return [pair.public_key] if pair else []

    def _readdress(self, backend: Any) -> None:
        """Give the default VPC the addresses that lead to hosts."""
        vpc = backend.default_vpc
        vpc.cidr_block = str(self.network)
        for association in vpc._cidr_block_association_set.values():
            association["cidr_block"] = str(self.network)
        for subnet in list(backend.get_default_subnets().values()):
            backend.delete_subnet(subnet.id)
        blocks = list(itertools.islice(self._blocks, _ZONES_A_REGION))
        if not blocks:
            raise ApiError("OptInRequired", "This emulated EC2 has no addresses left for one more region.", 401)
        for block, zone in zip(blocks, backend.describe_availability_zones(), strict=False):
            backend.create_subnet(vpc.id, str(block), availability_zone=zone.name)


def facts_of(instance_type: str) -> Mapping[str, Any] | None:
    """What DescribeInstanceTypes tells of a type."""
    found: Mapping[str, Any] | None = INSTANCE_TYPES.get(instance_type)
    return found


def sell_only(instance_types: Collection[str]) -> None:
    """Let the API tell of these types alone: it takes seven seconds to tell of all 1,395."""
    kept = [each for each in InstanceTypeBackend.instance_types if each.name in instance_types]
    InstanceTypeBackend.instance_types[:] = kept
    for regions in INSTANCE_TYPE_OFFERINGS.values():
        for offerings in regions.values():
            offerings[:] = [each for each in offerings if each["InstanceType"] in instance_types]


def zones_selling(region: str, instance_type: str) -> list[str]:
    """The zones of a region that have this type at all."""
    offerings = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, ())
    return sorted(each["Location"] for each in offerings if each["InstanceType"] == instance_type)


def set_state(instance: Any, name: str) -> None:
    """Let the API say that an instance is pending or running."""
    instance._state.name, instance._state.code = name, _CODES[name]


def set_ended(instance: Any, code: str, message: str, stopped: bool = False) -> None:
    """Let the API say that an instance ended, and why."""
    if instance.state in ALIVE:
        instance.stop() if stopped else instance.terminate()
        instance.state_reason = StateReason(f"{code}: {message}", code)
        instance._reason = code


def image_for(parameter: str) -> str | None:
    """The image that a public parameter of Systems Manager names."""
    if parameter.startswith("/aws/service/deeplearning/"):
        return "ami-0e301ab0e301ab0d1"
    if parameter.startswith("/aws/service/canonical/ubuntu/"):
        return "ami-0e301ab0e301ab024" if "24.04" in parameter or "noble" in parameter else "ami-0e301ab0e301ab022"
    return None


def _backend(region: str) -> Any:
    try:
        return ec2_backends[ACCOUNT_ID][region]
    except KeyError:
        raise ApiError("AuthFailure", f"AWS has no region '{region}'.", 401) from None


def _add_images(backend: Any) -> None:
    for image_id, (owner, name) in _IMAGES.items():
        backend.amis[image_id] = Ami(
            backend,
            image_id,
            name=name,
            description="An emulated host with the software of this computer.",
            owner_id=owner,
            public=True,
            virtualization_type="hvm",
            architecture="x86_64",
            root_device_type="ebs",
            hypervisor="xen",
            tags={"mlcd:ssh-user": DEFAULT_USER},
        )
