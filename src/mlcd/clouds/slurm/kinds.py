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
_WITHOUT_PLACES = re.compile(r"\([^)]*\)")  # the sockets of a resource: gpu:a100:4(S:0-1)


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
        """Of a node."""
        return sum(int(count) for _, count in _GPU.findall(self.gres))

    @property
    def gpu_model(self) -> str:
        """Their type, as the site calls it."""
        return next((model for model, _ in _GPU.findall(self.gres) if model), "")


def read_kinds(rows: Sequence[NodeRow]) -> list[Kind]:
    """What is for sale, by name; nodes that are down or drained are not."""
    groups: dict[tuple[object, ...], list[NodeRow]] = defaultdict(list)
    for row in rows:
        if row.usable:
            groups[row.partition, row.features, gres_of(row), row.cpus, row.memory_mib].append(row)
    names = _names([alike[0] for alike in groups.values()])
    kinds = [_kind(name, alike, rows) for name, alike in zip(names, groups.values(), strict=True)]
    return sorted(kinds, key=lambda kind: kind.name)


def make_offers(kinds: Sequence[Kind], prices: Prices, date: str) -> list[Offer]:
    """One offer for each kind."""
    return [_offer(kind, prices, date) for kind in kinds]


def gres_of(row: NodeRow) -> str:
    """A node's generic resources, as sbatch takes them."""
    return _WITHOUT_PLACES.sub("", row.gres)


def _names(rows: Sequence[NodeRow]) -> list[str]:
    """Partition, features and resources, with the size where that is not enough to tell kinds apart."""
    plain = ["+".join([row.partition, *row.features, *_words(gres_of(row))]) for row in rows]
    counts = Counter(plain)
    sizes = [f"-{row.cpus}c-{row.memory_mib}m" for row in rows]
    return [name + size if counts[name] > 1 else name for name, size in zip(plain, sizes, strict=True)]


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
        usd_per_hour=prices.usd_per_hour(kind.partition, kind.cpus, kind.gpus),
        max_nodes=kind.max_nodes,
        priced_at=date,
        source="price list" if prices.knows(kind.partition) else "no price: free of charge",
    )
