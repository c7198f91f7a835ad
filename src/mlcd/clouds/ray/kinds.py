"""What a Ray cluster sells: its nodes, sorted by what they are, in sizes of one, two, four … cores up to a whole node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcd.clouds.ray.settings import RaySettings
from mlcd.core.machines import InstanceType, Offer

# Where clusters say what kind a node is: KubeRay and the autoscaler, then whoever starts nodes by hand.
NAME_LABELS = ("ray.io/node-type", "ray.io/node-group", "node-type", "node_type")
_PLAIN = ("CPU", "GPU", "memory", "object_store_memory")
_GIB = 2.0**30
A_LITTLE = 0.001  # of a custom resource: enough to be put where there is some


@dataclass(frozen=True)
class Family:
    """Nodes that are alike but for their size."""

    label: tuple[str, str] | None  # the label that names them, and its value
    custom: tuple[str, ...]  # custom resources that all of them have
    gpu_model: str = ""

    @property
    def name(self) -> str:
        """How their sizes are called, before the size."""
        return "-".join(("ray" if self.label is None else self.label[1], *self.custom))


@dataclass(frozen=True)
class RayNode:
    """A living node."""

    family: Family
    cpus: int
    gpus: int
    memory_gib: float


@dataclass(frozen=True)
class Bundle:
    """What a placement group asks of each node."""

    resources: dict[str, float]
    labels: dict[str, str]


def make_offers(rows: Iterable[Mapping[str, Any]], prices: RaySettings, date: str) -> list[Offer]:
    """Offers from what ray.nodes() lists, the smallest first."""
    nodes = [node for row in rows if row["Alive"] and (node := _read(row)).cpus >= 1]
    families = sorted({node.family for node in nodes}, key=lambda family: family.name)
    return [
        offer
        for family in families
        for offer in _of_family(family, [node for node in nodes if node.family == family], prices, date)
    ]


def bundle_of(rows: Iterable[Mapping[str, Any]], instance: InstanceType) -> Bundle:
    """What to ask for so that each node is of that kind."""
    families = {_read(row).family for row in rows if row["Alive"]}
    named = [family for family in families if instance.name.startswith(f"{family.name}-")]
    family = max(named, key=lambda family: len(family.name), default=Family(None, ()))
    resources = {"CPU": float(instance.vcpus), **dict.fromkeys(family.custom, A_LITTLE)}
    if instance.gpus:
        resources["GPU"] = float(instance.gpus)
    return Bundle(resources, dict([family.label]) if family.label else {})


def _of_family(family: Family, nodes: Sequence[RayNode], prices: RaySettings, date: str) -> list[Offer]:
    if family.gpu_model or any(node.gpus for node in nodes):
        instances = [_whole(family, nodes, gpus) for gpus in sorted({node.gpus for node in nodes if node.gpus})]
    else:
        instances = [_cores(family, nodes, cpus) for cpus in sizes(nodes)]
    return [_offer(instance, nodes, prices, date) for instance in instances]


def sizes(nodes: Sequence[RayNode]) -> list[int]:
    """1, 2, 4 … cores, and each whole node."""
    most = max(node.cpus for node in nodes)
    powers = {2**power for power in range(most.bit_length())}
    return sorted(powers | {node.cpus for node in nodes})


def _cores(family: Family, nodes: Sequence[RayNode], cpus: int) -> InstanceType:
    """So many cores of a node, with their share of its memory."""
    memory = min(node.memory_gib * cpus / node.cpus for node in nodes if node.cpus >= cpus)
    return InstanceType(f"{family.name}-{cpus}c", vcpus=cpus, memory_gib=memory)


def _whole(family: Family, nodes: Sequence[RayNode], gpus: int) -> InstanceType:
    """A whole node: Ray numbers the GPUs of a part of one as it likes, and programs go by numbers."""
    alike = [node for node in nodes if node.gpus == gpus]
    name = f"{family.name}-{gpus}x{family.gpu_model or 'gpu'}"
    cpus, memory = min(node.cpus for node in alike), min(node.memory_gib for node in alike)
    return InstanceType(name, vcpus=cpus, memory_gib=memory, gpus=gpus, gpu_model=family.gpu_model)


def _offer(instance: InstanceType, nodes: Sequence[RayNode], prices: RaySettings, date: str) -> Offer:
    fitting = [node for node in nodes if node.cpus >= instance.vcpus and node.gpus == instance.gpus]
    return Offer(
        cloud="ray",
        instance=instance,
        usd_per_hour=instance.vcpus * prices.usd_per_cpu_hour + instance.gpus * prices.usd_per_gpu_hour,
        max_nodes=len(fitting),
        priced_at=date,
        source="settings",
        mixes="ray",
    )


def _read(row: Mapping[str, Any]) -> RayNode:
    resources, labels = dict(row["Resources"]), dict(row.get("Labels") or {})
    label = next(((name, labels[name]) for name in NAME_LABELS if labels.get(name)), None)
    models = sorted(name.partition(":")[2] for name in resources if name.startswith("accelerator_type:"))
    custom = tuple(sorted(name for name in resources if name not in _PLAIN and ":" not in name))
    gpus = int(resources.get("GPU", 0))
    return RayNode(
        family=Family(label, custom, models[0] if models and gpus else ""),
        cpus=int(resources.get("CPU", 0)),
        gpus=gpus,
        memory_gib=float(resources.get("memory", 0.0)) / _GIB,
    )
