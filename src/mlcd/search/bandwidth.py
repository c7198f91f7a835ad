"""How much of the parameter servers' network one worker takes: b_t of FC², from what a trial has measured.

A link carries as much in each direction at once, and a worker receives the parameters as often as it sends a gradient of
the same size: what it receives is what it takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mlcd.core.machines import Deployment
from mlcd.core.study import Study, WorkerBandwidth
from mlcd.core.trial import Measurement, Trial

_BITS = 32.0  # of a parameter


@dataclass(frozen=True)
class KnownBandwidth:
    """b_t, and who has measured it."""

    mbps: float
    measured_by: str = ""  # an earlier job; empty: this one


def measured_mbps(deployment: Deployment, measurement: Measurement) -> float:
    """What the programs of a worker received; 0: nobody knows, or there is nobody to exchange with."""
    nodes = measurement.usage.nodes
    if deployment.nodes < 2:
        return 0.0
    if not nodes:  # known of all together only
        return measurement.usage.network_mbps
    known = [node.network_mbps for node in nodes[: deployment.workers] if node.network_mbps is not None]
    return sum(known) / len(known) if known else 0.0


def computed_mbps(deployment: Deployment, measurement: Measurement, parameters: float, batch_size: int) -> float:
    """The same where it was not measured: the parameters once in a step; `batch_size` is of a worker that hides its own."""
    batch = deployment.batch_size or batch_size * deployment.workers
    steps_per_second = measurement.samples_per_second / batch
    return _BITS * (measurement.parameters or parameters) * steps_per_second / 1e6


def bandwidths_in(trials: Iterable[Trial], job_id: str) -> tuple[WorkerBandwidth, ...]:
    """What a job measured with one worker beside parameter servers, for later jobs."""
    seen = [(trial.deployment, trial.measurement) for trial in trials]
    return tuple(
        WorkerBandwidth(
            where.offer.instance.name, where.batch_size, where.of_servers.instance.network_gbps, mbps, job_id
        )
        for where, measurement in seen
        if measurement is not None and where.servers and where.workers == 1
        if (mbps := measured_mbps(where, measurement)) > 0.0
    )


def from_earlier(study: Study, first: Deployment) -> KnownBandwidth | None:
    """b_t of this smallest cluster as an earlier job measured it, beside servers that were at least as fast."""
    wanted = (first.offer.instance.name, first.batch_size)
    for known in study.bandwidths if first.servers else ():
        if (known.instance, known.batch_size) == wanted and known.server_gbps >= first.of_servers.instance.network_gbps:
            return KnownBandwidth(known.mbps, known.job_id)
    return None
