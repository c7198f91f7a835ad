"""What a Kubernetes cluster sells: whole nodes of its pools, at the prices of a list or of their CPUs and GPUs."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcd.clouds.kubernetes.settings import KubernetesSettings
from mlcd.clouds.kubernetes.site import ANY, Site
from mlcd.clouds.kubernetes.tolerations import GPU_NODES, Toleration, keeps_away
from mlcd.core.machines import InstanceType, Offer
from mlcd.errors import UserError

# Where clusters say which pool a node is of; the user's own label goes before them.
POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "node.kubernetes.io/instance-type",
)
GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"
MIG = "nvidia.com/mig-"  # and the size of the slices: nvidia.com/mig-1g.5gb; CUDA uses one of them in a process, so one is asked for
_SLICES = "-MIG-"  # in the model, where the device plugin calls slices GPUs
GPU_MODEL_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name")
_GIB = 2.0**30
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_CPU_LEFT = 0.5  # of a node's CPUs, for what runs on every node; never more than half of it
_MEMORY_SHARE = 0.85  # of what a node can give, for the same reason


@dataclass(frozen=True)
class Pool:
    """Nodes that are alike."""

    label: tuple[str, str]
    cpus: float  # that one of them can give
    memory_gib: float
    gpus: int
    gpu_model: str
    nodes: int
    gpu_resource: str = GPU  # as the device plugin calls them

    @property
    def requests(self) -> dict[str, str]:
        """What a pod asks for so that it has a node to itself."""
        cpu = max(self.cpus - _CPU_LEFT, self.cpus / 2)
        requests = {
            "cpu": f"{int(cpu * 1000)}m",
            "memory": f"{int(self.memory_gib * _MEMORY_SHARE * 1024)}Mi",
        }
        return {**requests, self.gpu_resource: str(self.gpus)} if self.gpus else requests


def read_pools(
    nodes: Iterable[Mapping[str, Any]],
    own_label: str = "",
    tolerations: Sequence[Toleration] = GPU_NODES,
    site: Site = ANY,
) -> list[Pool]:
    """The pools, from what `kubectl get nodes` lists; nodes that take no pods of ours are left out."""
    groups: dict[tuple[str, str], list[Pool]] = {}
    for node in nodes:
        pool = _read(node, (own_label, *POOL_LABELS) if own_label else POOL_LABELS)
        if pool is not None and _takes_pods(node, tolerations) and site.allows(node["metadata"].get("labels", {})):
            groups.setdefault(pool.label, []).append(pool)
    return [_together(pools) for _, pools in sorted(groups.items())]


def make_offers(
    pools: Sequence[Pool], prices: Mapping[str, float], settings: KubernetesSettings, date: str
) -> list[Offer]:
    """One offer for each pool."""
    return [_offer(pool, prices, settings, date) for pool in pools]


def read_prices(file: str) -> dict[str, float]:
    """Pool → US dollars of a node and hour, from a CSV with the columns pool and usd_per_hour; no file: none."""
    if not file:
        return {}
    try:
        with Path(file).expanduser().open(newline="") as stream:
            return {row["pool"]: float(row["usd_per_hour"]) for row in csv.DictReader(stream)}
    except (OSError, KeyError, ValueError) as error:
        raise UserError(
            f"The price list {file} cannot be read: {error!r}", "Give it the columns pool,usd_per_hour."
        ) from error


def quantity(text: str) -> float:
    """A number as Kubernetes writes it: 3920m, 16Gi, 4."""
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def _read(node: Mapping[str, Any], names: Sequence[str]) -> Pool | None:
    labels = node["metadata"].get("labels", {})
    given = node["status"].get("allocatable", {})
    label = next(((name, labels[name]) for name in names if labels.get(name)), None)
    if label is None:
        return None
    resource, model = _gpu_resource(given), next((labels[name] for name in GPU_MODEL_LABELS if name in labels), "")
    count, sliced = int(given.get(resource, "0")), resource.startswith(MIG) or _SLICES in model
    return Pool(
        label=label,
        cpus=quantity(given.get("cpu", "0")),
        memory_gib=quantity(given.get("memory", "0")) / _GIB,
        gpus=min(1, count) if sliced else count,
        gpu_model=model,
        nodes=1,
        gpu_resource=resource,
    )


def _gpu_resource(given: Mapping[str, str]) -> str:
    """What the device plugin of a node calls its GPUs, or their slices where it has no whole ones."""
    names = [GPU, AMD_GPU, *sorted(name for name in given if name.startswith(MIG))]
    return next((name for name in names if int(given.get(name, "0"))), GPU)


def _takes_pods(node: Mapping[str, Any], tolerations: Sequence[Toleration]) -> bool:
    spec, conditions = node.get("spec", {}), node["status"].get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    barred = spec.get("unschedulable", False) or keeps_away(spec.get("taints", []), tolerations)
    return ready and not barred


def _together(pools: Sequence[Pool]) -> Pool:
    """As many nodes, each of which gives at least this."""
    first = pools[0]
    return Pool(
        label=first.label,
        cpus=min(pool.cpus for pool in pools),
        memory_gib=min(pool.memory_gib for pool in pools),
        gpus=min(pool.gpus for pool in pools) if len({pool.gpu_resource for pool in pools}) == 1 else 0,
        gpu_model=first.gpu_model,
        nodes=len(pools),
        gpu_resource=first.gpu_resource,
    )


def _offer(pool: Pool, prices: Mapping[str, float], settings: KubernetesSettings, date: str) -> Offer:
    name = pool.label[1]
    listed = prices.get(name)
    reckoned = pool.cpus * settings.usd_per_cpu_hour + pool.gpus * settings.usd_per_gpu_hour
    return Offer(
        cloud="kubernetes",
        instance=InstanceType(
            name, pool.cpus, pool.memory_gib, gpus=pool.gpus, gpu_model=pool.gpu_model if pool.gpus else ""
        ),
        usd_per_hour=reckoned if listed is None else listed,
        max_nodes=pool.nodes,
        priced_at=date,
        source="settings" if listed is None else "price list",
    )
