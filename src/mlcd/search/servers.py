"""Which machines may be the parameter servers of a job: the list Lᵖ of FC² (Ta, Cluster Computing 2019, section 5.2.1).

    allreduce              no node serves
    ps                     1, 2, 4 … of the nodes serve, never more than train; all are of one type
    ps, with `servers`     as many as it says, of the types that it names or else of Lᵖ: without a GPU, of no more than
                           eight vCPUs, and none that has a slower network than another one at the same price or less

"The parameter server only needs to maintain and communicate the model's parameters, so a medium-sized general purpose
instance would be sufficient in many cases."
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlcd.core.job import Job, Topology
from mlcd.core.machines import Deployment, Offer
from mlcd.errors import InvalidJobError, did_you_mean

MOST_VCPUS = 8.0

Server = tuple[int, Offer | None]  # how many of the nodes serve, and of which type; None: the workers'


class ServerChoices:
    """What may serve beside the workers of each offer."""

    def __init__(self, job: Job, offered: Sequence[Offer]) -> None:
        self._job = job
        self._named = {name.lower() for name in job.servers.instance_types} if job.servers else set[str]()
        able = [offer for offer in offered if self._able(offer)]
        self._by_mix = {mix: _fastest_for_their_price(group, self._named) for mix, group in _by_mix(able).items()}
        if self._named and not able:
            raise _unknown(job, offered)

    def beside(self, offer: Offer, nodes: int) -> Iterator[Server]:
        """Of so many nodes, those that may serve."""
        if self._job.topology is Topology.ALLREDUCE:
            yield 0, None
        elif self._job.servers is None:
            yield from ((2**power, None) for power in range((nodes // 2).bit_length()))
        else:
            counts = [count for count in self._job.servers.counts if count < nodes]
            yield from ((count, server) for count in counts for server in self._types_beside(offer))

    def most_nodes(self, offer: Offer) -> int:
        """How many nodes there can be where these train: those of the offer, and servers of another type."""
        if self._job.servers is None:
            return offer.max_nodes
        others = [server.max_nodes for server in self._types_beside(offer) if server is not None]
        return offer.max_nodes + min(max(others, default=0), most_servers(self._job))

    def _types_beside(self, offer: Offer) -> list[Offer | None]:
        """The types that may serve beside this one; where a cloud rents no other type beside it, its own."""
        if not offer.mixes:
            if self._named and not self._is_named(offer):
                raise _one_type_only(offer)
            return [None]
        here = self._by_mix.get(offer.mixes, [])
        if not here and not self._named:
            return [None]
        return [None if server.instance == offer.instance else server for server in here]

    def _able(self, offer: Offer) -> bool:
        if self._job.servers is None:
            return False
        if self._named:
            return self._is_named(offer)
        return bool(offer.mixes) and not offer.instance.gpus and offer.instance.vcpus <= MOST_VCPUS

    def _is_named(self, offer: Offer) -> bool:
        return offer.instance.name.lower() in self._named


def fewest_workers(job: Job) -> int:
    """How many nodes train at least."""
    if job.topology is Topology.ALLREDUCE:
        return job.nodes.fewest
    most = job.nodes.fewest // 2 if job.servers is None else max(job.servers.counts)
    return max(1, job.nodes.fewest - most)


def most_servers(job: Job) -> int:
    """How many nodes may be of another type than the workers."""
    return max(job.servers.counts) if job.servers is not None else 0


def refuse_too_few_nodes(job: Job, most: int) -> None:
    """Raise where no node is left to train or none to serve."""
    if job.topology is Topology.PS and min(most, job.nodes.most) < 2:
        raise InvalidJobError(
            "topology: ps needs at least two nodes, a worker and a parameter server.",
            "Ask for num_nodes: 2 or more, on machines of which two can be had.",
            "num_nodes",
        )
    if job.servers is not None and min(job.servers.counts) >= job.nodes.most:
        raise InvalidJobError(
            f"Of {job.nodes.most} nodes {min(job.servers.counts)} are to serve: none is left to train.",
            "Parameter servers count as nodes: ask for more num_nodes, or fewer servers.",
            "servers.count",
        )


def refuse_too_expensive(had: Sequence[Deployment], most_usd: float) -> None:
    """Raise where workers and servers together cost more than the job allows."""
    if had:
        least = min(had, key=lambda each: each.usd_per_hour)
        raise InvalidJobError(
            f"No offer is left with max_hourly_cost {most_usd:g}: all nodes together, parameter servers too, cost at least "
            f"${least.usd_per_hour:.4g} an hour.",
            f"That is {least}.",
            "resources.max_hourly_cost",
        )


def _by_mix(offers: Sequence[Offer]) -> dict[str, list[Offer]]:
    found: dict[str, list[Offer]] = {}
    for offer in offers:
        found.setdefault(offer.mixes, []).append(offer)
    return found


def _fastest_for_their_price(offers: Sequence[Offer], named: set[str]) -> list[Offer]:
    """Those that no other one beats in network and price; what the user names is taken as it is."""
    kept: list[Offer] = []
    for offer in sorted(offers, key=lambda each: (each.whole_usd_per_hour, -each.instance.network_gbps)):
        if named or not kept or offer.instance.network_gbps > kept[-1].instance.network_gbps:
            kept.append(offer)
    return kept


def _one_type_only(offer: Offer) -> InvalidJobError:
    return InvalidJobError(
        f"Beside {offer.name} the cloud '{offer.cloud}' rents no other type for a task: parameter servers have to be of the same.",
        "Leave out servers.instance_type, name the same in resources.instance_type, or take machines that can "
        "be mixed: of local, ray, or ec2 on demand.",
        "servers.instance_type",
    )


def _unknown(job: Job, offered: Sequence[Offer]) -> InvalidJobError:
    assert job.servers is not None, "only then types are named"
    wanted, there = ", ".join(job.servers.instance_types), sorted({offer.instance.name for offer in offered})
    return InvalidJobError(
        f"No parameter server can be of type {wanted}: no such type is on offer.",
        did_you_mean(job.servers.instance_types[0], there),
        "servers.instance_type",
    )
