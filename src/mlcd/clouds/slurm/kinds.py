"""What a Slurm cluster sells: whole nodes, sorted by partition, features and generic resources. Pure.

A node in two partitions is sold in both, for each has its own limits, price and priority.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from mlcd.clouds.slurm.prices import Prices
from mlcd.clouds.slurm.tables import NodeRow
from mlcd.core.machines import InstanceType, Offer

_GPU = re.compile(r"(?:^|,)gpu:(?:([^:,()]+):)?(\d+)")
_SLICE = re.compile(r"\d+g\.\d+gb")  # a100_1g.5gb
_PLACES = re.compile(r"\([^)]*\)")  # the sockets of a resource: gpu:a100:4(S:0-1)
_SHARES = ("shard", "mps")  # of the GPUs that are asked for whole; sbatch refuses who asks for both


@dataclass(frozen=True)
class Kind:
    """Nodes of a partition that are alike."""

    name: str
    partition: str
    features: tuple[str, ...]
    gres: str
    cpus: int
    memory_mib: int
    nodes: tuple[str, ...]
    others: tuple[str, ...]  # nodes of the partition that are not alike, or take no jobs now
    max_seconds: int | None  # of a job; None: no limit
    max_nodes: int  # of a job, and that there are

    @property
    def gpus(self) -> int:
        """Of a node. CUDA uses one slice of a GPU (MIG) in a process, so a node with slices has one that a program can count on."""
        return 1 if _SLICE.search(self.gpu_model) else self.gpus_to_pay

    @property
    def gpus_to_pay(self) -> int:
        """As Slurm counts them: slices are GPUs."""
        return sum(int(count) for _, count in _GPU.findall(self.gres))

    @property
    def gpu_model(self) -> str:
        """Their type, as the site calls it."""
        return next((model for model, _ in _GPU.findall(self.gres) if model), "")


def read_kinds(rows: Sequence[NodeRow]) -> list[Kind]:
    """What is for sale, by name; nodes that are down or drained are not."""
    names, groups = _names(rows), defaultdict(list)
    for row in rows:
        if row.usable:
            groups[names[_likeness(row)]].append(row)
    return [_kind(name, groups[name], rows) for name in sorted(groups)]


def make_offers(kinds: Sequence[Kind], prices: Prices, date: str) -> list[Offer]:
    """One offer for each kind."""
    return [_offer(kind, prices, date) for kind in kinds]


def gres_of(row: NodeRow) -> str:
    """A node's generic resources, as sbatch takes them: those that a job asks for and uses up."""
    words = [word.split(":") for word in _PLACES.sub("", row.gres).split(",") if word]
    return ",".join(":".join(parts) for parts in words if parts[0] not in _SHARES and "no_consume" not in parts)


def _likeness(row: NodeRow) -> tuple[str, int, int]:
    """What nodes that are alike have in common: partition, features and resources by name, and the size."""
    return "+".join([row.partition, *row.features, *_words(gres_of(row))]), row.cpus, row.memory_mib


def _names(rows: Sequence[NodeRow]) -> dict[tuple[str, int, int], str]:
    """A name for each kind, with the size where that alone tells kinds apart, whichever of their nodes are up now."""
    kinds = {_likeness(row) for row in rows}
    counts = Counter(name for name, _, _ in kinds)
    return {(name, cpus, mib): f"{name}-{cpus}c-{mib}m" if counts[name] > 1 else name for name, cpus, mib in kinds}


def _words(gres: str) -> list[str]:
    return [each.replace(":", "-") for each in gres.split(",") if each]


def _kind(name: str, alike: Sequence[NodeRow], rows: Sequence[NodeRow]) -> Kind:
    first, nodes = alike[0], sorted({row.name for row in alike})
    others = sorted({row.name for row in rows if row.partition == first.partition} - set(nodes))
    most = len(nodes) if first.max_nodes is None else min(first.max_nodes, len(nodes))
    return Kind(
        name=name,
        partition=first.partition,
        features=first.features,
        gres=gres_of(first),
        cpus=first.cpus,
        memory_mib=first.memory_mib,
        nodes=tuple(nodes),
        others=tuple(others),
        max_seconds=first.max_seconds,
        max_nodes=most,
    )


def _offer(kind: Kind, prices: Prices, date: str) -> Offer:
    return Offer(
        cloud="slurm",
        instance=InstanceType(kind.name, kind.cpus, kind.memory_mib / 1024, gpus=kind.gpus, gpu_model=kind.gpu_model),
        usd_per_hour=prices.usd_per_hour(kind.partition, kind.cpus, kind.gpus_to_pay),
        max_nodes=kind.max_nodes,
        priced_at=date,
        source="price list" if prices.knows(kind.partition) else "no price: free of charge",
    )
