"""The deployments that a job may use: every allowed offer × nodes × parameter servers × batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from mlcd.core.job import Job, Resources
from mlcd.core.machines import Deployment, Offer
from mlcd.errors import InvalidJobError, nearest
from mlcd.search.servers import (
    ServerChoices,
    fewest_workers,
    most_servers,
    refuse_too_expensive,
    refuse_too_few_nodes,
)


def make_space(job: Job, offers: Iterable[Offer]) -> tuple[Deployment, ...]:
    """All deployments that the job allows, in the order of the offers; raises when there are none."""
    offered = tuple(offers)
    allowed, most_usd = _allowed_offers(job, offered)
    had = tuple(each for each in _possible(job, allowed, offered) if each.too_large is None)
    space = _cheapest_of_each_key(each for each in had if each.usd_per_hour <= most_usd[id(each.offer)])
    if not space:
        refuse_too_few_nodes(job, max(offer.max_nodes for offer in allowed) + most_servers(job))
        refuse_too_expensive(had, max(most_usd.values()))
        raise _nothing_left_by_size(job, allowed)
    return space


def _possible(job: Job, allowed: Iterable[Offer], offered: tuple[Offer, ...]) -> Iterator[Deployment]:
    """What the job's offers, nodes, servers and batch sizes make together."""
    choices = ServerChoices(job, offered)
    return (
        Deployment(offer, nodes, batch_size, servers=servers, server_offer=server)
        for offer in allowed
        for nodes in range(job.nodes.fewest, min(job.nodes.most, choices.most_nodes(offer)) + 1)
        for servers, server in choices.beside(offer, nodes)
        for batch_size in job.batch_sizes.choices or (None,)
        if batch_size is None or batch_size >= nodes - servers  # a worker without a sample has nothing to do
    )


def _allowed_offers(job: Job, offered: tuple[Offer, ...]) -> tuple[tuple[Offer, ...], dict[int, float]]:
    """The offers, and what a cluster of each may cost in all: as much as any of the alternatives that it meets allows."""
    if not offered:
        raise InvalidJobError(
            f"The cloud '{job.cloud}' offers no machines.", "Run `mlcd offers` to see what is for sale."
        )
    lists = [(resources, _sift(job, resources, offered)) for resources in job.resources or (Resources(),)]
    most_usd: dict[int, float] = {}
    for resources, sifted in lists:
        cap = inf if resources.max_usd_per_hour is None else resources.max_usd_per_hour
        admitted = sifted if isinstance(sifted, tuple) else ()
        most_usd.update({id(offer): max(cap, most_usd.get(id(offer), cap)) for offer in admitted})
    if not most_usd:
        raise _nothing_left_by_resources([sifted for _, sifted in lists if isinstance(sifted, _Emptied)])
    return tuple(offer for offer in offered if id(offer) in most_usd), most_usd


@dataclass(frozen=True)
class _Filter:
    """One demand of the job: how the user wrote it, which offers meet it, and how an offer is named in its terms."""

    asked: str
    admits: Callable[[Offer], bool]
    shows: Callable[[Offer], str]
    words: tuple[str, ...] = ()  # names that may be misspelt


@dataclass(frozen=True)
class _Emptied:
    """The demand that left no offer, and what was there before it."""

    sieve: _Filter
    before: tuple[Offer, ...]


def _sift(job: Job, resources: Resources, offered: tuple[Offer, ...]) -> tuple[Offer, ...] | _Emptied:
    left = offered
    for sieve in _sieves(job, resources):
        passed = tuple(offer for offer in left if sieve.admits(offer))
        if not passed:
            return _Emptied(sieve, left)
        left = passed
    return left


def _sieves(job: Job, resources: Resources) -> Sequence[_Filter]:
    return (
        _kinds(job.search.kinds),
        *_names(resources),
        *_hardware(resources),
        _spot(bool(resources.use_spot)),
        *_price(resources, fewest_workers(job)),
    )


def _kinds(kinds: tuple[str, ...]) -> _Filter:
    return _Filter(f"kinds {', '.join(kinds)}", lambda offer: offer.kind in kinds, lambda offer: offer.kind, kinds)


def _names(resources: Resources) -> Iterable[_Filter]:
    if resources.clouds:
        yield _one_of("cloud", resources.clouds, lambda offer: offer.cloud)
    if resources.regions:
        yield _one_of("region", resources.regions, lambda offer: offer.region)
    if resources.instance_types:
        yield _one_of("instance_type", resources.instance_types, lambda offer: offer.instance.name)


def _one_of(key: str, wanted: tuple[str, ...], shows: Callable[[Offer], str]) -> _Filter:
    lowered = {word.lower() for word in wanted}
    return _Filter(f"{key} {', '.join(wanted)}", lambda offer: shows(offer).lower() in lowered, shows, wanted)


def _hardware(resources: Resources) -> Iterable[_Filter]:
    if resources.accelerators:
        wanted = {(name.lower(), count) for name, count in resources.accelerators}
        yield _Filter(
            "accelerators " + ", ".join(f"{name}:{count:g}" for name, count in resources.accelerators),
            lambda offer: (offer.instance.gpu_model.lower(), float(offer.instance.gpus)) in wanted,
            _show_accelerators,
            tuple(f"{name}:{count:g}" for name, count in resources.accelerators),
        )
    if resources.min_vcpus:
        yield _amount("cpus", resources.min_vcpus, resources.exact_vcpus, lambda offer: offer.instance.vcpus)
    if resources.min_memory_gib:
        yield _amount(
            "memory",
            resources.min_memory_gib,
            resources.exact_memory,
            lambda offer: offer.instance.memory_gib,
        )


def _show_accelerators(offer: Offer) -> str:
    """What the demand for accelerators could be met with; a machine that has none is shown by its name."""
    if not offer.instance.gpus:
        return f"{offer.instance.name} without accelerators"
    return f"{offer.instance.gpu_model or 'GPU'}:{offer.instance.gpus}"


def _amount(key: str, wanted: float, exact: bool, amount: Callable[[Offer], float]) -> _Filter:
    def admits(offer: Offer) -> bool:
        return abs(amount(offer) - wanted) < 1e-6 if exact else amount(offer) >= wanted

    return _Filter(f"{key} {wanted:g}{'' if exact else '+'}", admits, lambda offer: f"{amount(offer):g}")


def _spot(wanted: bool) -> _Filter:
    def shows(offer: Offer) -> str:
        return "spot" if offer.spot else "on demand"

    return _Filter(f"use_spot {str(wanted).lower()}", lambda offer: offer.spot is wanted, shows)


def _price(resources: Resources, nodes: int) -> Iterable[_Filter]:
    most = resources.max_usd_per_hour
    if most is not None:
        yield _Filter(
            f"max_hourly_cost {most:g}",
            lambda offer: offer.whole_usd_per_hour * nodes <= most,
            lambda offer: f"{nodes} × {offer.name} at ${offer.whole_usd_per_hour * nodes:.4g}",
        )


def _cheapest_of_each_key(deployments: Iterable[Deployment]) -> tuple[Deployment, ...]:
    """The same machine offered twice is one deployment, at the lower price."""
    cheapest: dict[str, Deployment] = {}
    for deployment in deployments:
        known = cheapest.get(deployment.key)
        if known is None or deployment.usd_per_hour < known.usd_per_hour:
            cheapest[deployment.key] = deployment
    return tuple(cheapest.values())


def _nothing_left_by_resources(emptied: list[_Emptied]) -> InvalidJobError:
    asked = "; nor with ".join(each.sieve.asked for each in emptied)
    return InvalidJobError(f"No offer is left with {asked}.", _hint(emptied[-1]), _key(emptied[-1]))


def _key(emptied: _Emptied) -> str:
    """Where in the job the demand stands."""
    word = emptied.sieve.asked.split(" ")[0]
    return "search.kinds" if word == "kinds" else f"resources.{word}"


def _hint(emptied: _Emptied) -> str:
    there = sorted({emptied.sieve.shows(offer) or "(none named)" for offer in emptied.before})
    near = nearest(emptied.sieve.words[0], there) if len(emptied.sieve.words) == 1 else ""
    shown = ", ".join(there[:12]) + (f" and {len(there) - 12} more" if len(there) > 12 else "")
    listed = f"Without that demand there is: {shown}."
    return f"Did you mean '{near}'? {listed}" if near else listed


def _nothing_left_by_size(job: Job, allowed: tuple[Offer, ...]) -> InvalidJobError:
    most = max(offer.max_nodes for offer in allowed)
    if most < job.nodes.fewest:
        return InvalidJobError(
            f"num_nodes asks for at least {job.nodes.fewest} nodes; at most {most} are offered of one kind.",
            f"Ask for num_nodes: {most} or fewer, or allow other instance types.",
            "num_nodes",
        )
    return InvalidJobError(
        f"The largest batch size {max(job.batch_sizes.choices)} gives {job.nodes.fewest} nodes less than a sample each.",
        "Allow a larger batch_size or fewer nodes.",
        "batch_size",
    )
