"""Every deployment that a job may try on its cloud."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlcd.clouds.base import Cloud, Recorded
from mlcd.core.job import BatchSizes, Job, NodeRange, Resources, Topology
from mlcd.core.machines import Deployment, Offer
from mlcd.core.records import JobRecord
from mlcd.core.trial import FailureKind, Trial
from mlcd.engine.context import JobContext
from mlcd.errors import InvalidJobError, UserError, did_you_mean
from mlcd.forecast.memory import memory_need
from mlcd.search.space import make_space
from mlcd.search.trials import local_batch


@dataclass(frozen=True)
class Space:
    """The deployments, and which of the job's wishes nothing fits."""

    deployments: tuple[Deployment, ...]
    notices: tuple[str, ...] = ()


def space_on(cloud: Cloud, job: Job, offers: Iterable[Offer], trials: Sequence[Trial] = ()) -> Space:
    """What the job allows of these offers; of a recording, what was recorded of that."""
    if isinstance(cloud, Recorded):
        return recorded_space(job, tuple(offers), cloud.deployments())
    return Space(cut_to_measure(make_space(job, offers) + in_more_passes(job, trials), trials))


def space_of(context: JobContext, record: JobRecord) -> tuple[Deployment, ...]:
    """Every deployment that the job may try."""
    trials = context.store.trials(context.job_id)
    return space_on(context.cloud, record.job, record.offers, trials).deployments


def recorded_space(job: Job, offers: tuple[Offer, ...], recorded: tuple[Deployment, ...]) -> Space:
    """The recorded deployments that the job allows.

    A recording can be replayed with any job file: a wish that nothing recorded meets is left aside, and said so.
    """
    notices: list[str] = []
    most = max(deployment.nodes for deployment in recorded)
    relaxations: tuple[tuple[str, dict[str, Any]], ...] = (
        ("batch_size", {"batch_sizes": BatchSizes()}),
        ("resources", {"resources": (Resources(),)}),
        ("num_nodes", {"nodes": NodeRange(1, most)}),
    )
    for wish, relaxed in relaxations:
        if part := _recorded_part(job, offers, recorded):
            return Space(part, tuple(notices))
        job = replace(job, **relaxed)
        notices.append(f"`{wish}` of the job fits nothing that was recorded, and is left aside")
    return Space(_recorded_part(job, offers, recorded), tuple(notices))


def cut_to_measure(space: tuple[Deployment, ...], trials: Sequence[Trial]) -> tuple[Deployment, ...]:
    """Where memory is sold by the GiB, each deployment with what its batch was seen to need."""
    if not any(deployment.offer.usd_per_gib_hour for deployment in space):
        return space
    need = memory_need(trials)
    return tuple(need.cut(each) if each.offer.usd_per_gib_hour else each for each in space)


def in_more_passes(job: Job, trials: Sequence[Trial]) -> tuple[Deployment, ...]:
    """What ran out of memory, with its batch taken in twice as many passes, as far as the job allows it."""
    out_of_memory = (t.deployment for t in trials if t.failure and t.failure.reason is FailureKind.OUT_OF_MEMORY)
    full = [deployment for deployment in out_of_memory if not deployment.is_cut]
    return tuple(
        replace(deployment, accumulation=2 * deployment.accumulation)
        for deployment in dict.fromkeys(full)
        if deployment.batch_size is not None
        and 2 * deployment.accumulation <= job.batch_sizes.accumulate
        and local_batch(deployment) >= 2
    )


def find_deployment(
    space: tuple[Deployment, ...],
    now: Deployment,
    instance: str | None,
    nodes: int | None,
    batch_size: int | None,
) -> Deployment:
    """The deployment of the space that differs from the present one by what is named."""
    name = instance or now.offer.instance.name
    count = nodes or now.nodes
    size = batch_size or now.batch_size
    found = [each for each in space if (each.offer.instance.name, each.nodes, each.batch_size) == (name, count, size)]
    if found:
        return min(found, key=lambda each: (each.types != now.types, abs(each.servers - now.servers)))
    batch = "" if size is None else f", batch {size}"
    known = {f"{each.nodes} × {each.offer.instance.name}" for each in space}
    raise UserError(f"The job does not allow {count} × {name}{batch}.", did_you_mean(f"{count} × {name}", known))


def _recorded_part(job: Job, offers: tuple[Offer, ...], recorded: tuple[Deployment, ...]) -> tuple[Deployment, ...]:
    """What was recorded of the job's space; a job that names no batch size may use every recorded one.

    How the nodes exchanged is the recording's own matter.
    """
    try:
        space = make_space(replace(job, batch_sizes=BatchSizes(), topology=Topology.ALLREDUCE), offers)
    except InvalidJobError:
        return ()
    shapes = {(deployment.offer, deployment.nodes) for deployment in space}
    sizes = job.batch_sizes.choices
    return tuple(
        deployment
        for deployment in recorded
        if (deployment.offer, deployment.nodes) in shapes
        and (not sizes or deployment.batch_size is None or deployment.batch_size in sizes)
    )
