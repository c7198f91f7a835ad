"""An instance of the API together with the host that is it: boots, is held to its share, has a metadata service."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from mlcd_emulate.api.account import Account, facts_of
from mlcd_emulate.cgroups import Cgroups
from mlcd_emulate.emulation import Emulation
from mlcd_emulate.host import Host, HostSpec
from mlcd_emulate.metadata import MetadataServer, MetadataService, Tree, notice_tree
from mlcd_emulate.scale import host_size
from mlcd_emulate.shares import Shares

_GZIP = b"\x1f\x8b"
_DEFAULT_DISK_GIB = 8


@dataclass
class Machine:
    """One instance and its host."""

    instance: Any  # moto's
    host: Host
    shares: Shares
    reclaim_at: float | None = None  # when a spot instance is taken away, in seconds since 1970
    faults: dict[str, str] = field(default_factory=dict)  # in force: kind → how much
    _metadata: MetadataServer | None = None

    @property
    def id(self) -> str:
        """The instance's."""
        return str(self.instance.id)

    @property
    def address(self) -> str:
        """The instance's, and the host's."""
        return str(self.host.spec.address)

    def start(self) -> None:
        """Make the host and let it boot."""
        self.host.start()
        service = MetadataService(self._tree, lambda: self.instance.metadata_options.http_tokens == "required")
        self._metadata = MetadataServer(service, self.host.link.namespace)
        self.shares.hold(self.id, self.host.spec.size.cores)

    def remove(self) -> None:
        """End the host and remove all of it."""
        self.host.end_processes()
        self.shares.forget(self.id)
        if self._metadata:
            self._metadata.close()
            self._metadata = None
        self.host.remove()

    def slow_down(self, factor: float) -> None:
        """Divide its share; no credit makes up for that."""
        self.shares.hold(self.id, self.host.spec.size.cores, factor)

    def _tree(self) -> Tree:
        """What the metadata service tells this host."""
        instance, spec = self.instance, self.host.spec
        tree = {
            "meta-data/ami-id": instance.image_id,
            "meta-data/hostname": instance.private_dns_name,
            "meta-data/instance-id": self.id,
            "meta-data/instance-life-cycle": instance.lifecycle or "on-demand",
            "meta-data/instance-type": instance.instance_type,
            "meta-data/local-hostname": instance.private_dns_name,
            "meta-data/local-ipv4": self.address,
            "meta-data/placement/availability-zone": instance.availability_zone,
            "meta-data/placement/region": instance.region_name,
            "meta-data/public-ipv4": instance.public_ip,
        }
        tree |= {f"meta-data/public-keys/{n}/openssh-key": key for n, key in enumerate(spec.keys)}
        if spec.user_data:
            tree["user-data"] = spec.user_data.decode(errors="replace")
        if self.reclaim_at is not None:
            tree |= notice_tree(datetime.fromtimestamp(self.reclaim_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        return {path: text for path, text in tree.items() if text}


def build_machine(
    instance: Any,
    account: Account,
    emulation: Emulation,
    cgroups: Cgroups,
    shares: Shares,
    private: Sequence[Path],
    vcpus_per_core: float,
) -> Machine:
    """The machine for an instance that has none yet."""
    spec = HostSpec(
        instance_id=instance.id,
        address=IPv4Address(instance.private_ip),
        prefix=account.network.prefixlen,
        size=host_size(facts_of(instance.instance_type) or {}, _disk_gib(instance), vcpus_per_core),
        keys=account.public_keys(instance),
        user_data=_user_data(instance),
    )
    return Machine(instance, Host(emulation, spec, cgroups, private), shares)


def _disk_gib(instance: Any) -> int:
    sizes = [device.size for device in instance.block_device_mapping.values() if device.size]
    return int(sizes[0]) if sizes else _DEFAULT_DISK_GIB


def _user_data(instance: Any) -> bytes:
    data = base64.b64decode(str(instance.user_data)) if instance.user_data else b""
    return gzip.decompress(data) if data.startswith(_GZIP) else data
