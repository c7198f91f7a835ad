"""The limits that a quality of service (QOS) sets to each job, from what scontrol and sacctmgr print. Pure.

A partition may have a QOS of its own, which goes before that of the job; the flag OverPartQOS turns that around.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlcd.clouds.slurm.kinds import Kind
from mlcd.clouds.slurm.tables import read_duration

QOS_FORMAT = "Name,Flags,MaxWall,MaxTRES,MaxTRESPU,GrpTRES"
_PARTITION = re.compile(r"^PartitionName=(\S+).*?\bQoS=(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Limit:
    """What one job may have."""

    max_seconds: int | None = None  # None: no limit
    most: Mapping[str, int] = field(default_factory=dict)  # of nodes, cores and GPUs, as Slurm calls them
    goes_first: bool = False  # before that of the partition

    def over(self, other: Limit) -> Limit:
        """This one, and the other one where this one says nothing."""
        seconds = other.max_seconds if self.max_seconds is None else self.max_seconds
        return Limit(seconds, {**other.most, **self.most})

    def nodes(self, kind: Kind) -> int:
        """How many nodes of a kind that are."""
        gpus = {"gres/gpu": kind.gpus_to_pay, f"gres/gpu:{kind.gpu_model}": kind.gpus_to_pay}
        of_a_node = {"node": 1, "cpu": kind.cpus, **gpus}
        shares = [self.most[name] // count for name, count in of_a_node.items() if count and name in self.most]
        return min([kind.max_nodes, *shares])


def read_partition_qos(text: str) -> dict[str, str]:
    """The QOS of each partition that has one, from `scontrol --oneliner show partition`."""
    return {name: qos for name, qos in _PARTITION.findall(text) if qos != "N/A"}


def read_qos(text: str) -> dict[str, Limit]:
    """From `sacctmgr -n -P show qos format=QOS_FORMAT`."""
    rows = [line.split("|") for line in text.splitlines()]
    return {row[0]: _limit(*row[1:]) for row in rows if len(row) == len(QOS_FORMAT.split(","))}


def within(
    kinds: Sequence[Kind], of_partition: Mapping[str, str], of_job: str, known: Mapping[str, Limit]
) -> list[Kind]:
    """The kinds as a job with that QOS may have them; those of which it may have none are left out."""
    own = known.get(of_job, Limit())
    found = []
    for kind in kinds:
        shared = known.get(of_partition.get(kind.partition, ""), Limit())
        limit = own.over(shared) if own.goes_first else shared.over(own)
        times = [each for each in (kind.max_seconds, limit.max_seconds) if each is not None]
        found.append(replace(kind, max_nodes=limit.nodes(kind), max_seconds=min(times, default=None)))
    return [kind for kind in found if kind.max_nodes > 0]


def _limit(flags: str, wall: str, *tres: str) -> Limit:
    most: dict[str, int] = {}
    for name, _, count in (word.partition("=") for words in tres for word in words.split(",")):
        if count.isdigit():  # of memory it has a unit
            most[name] = min(int(count), most.get(name, int(count)))
    return Limit(read_duration(wall) if wall else None, most, "OverPartQOS" in flags.split(","))
