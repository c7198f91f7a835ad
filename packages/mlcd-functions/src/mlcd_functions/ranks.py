"""What each rank's function is invoked with."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mlcd import registry
from mlcd.errors import CloudError
from mlcd.platforms.base import Node, Platform
from mlcd_functions.files import Invocation, Spec
from mlcd_functions.messages import Event
from mlcd_functions.offers import memory_of
from mlcd_functions.prices import prices_of
from mlcd_functions.settings import FunctionsSettings

TICK_HERE_SECONDS = 0.5
TICK_AWAY_SECONDS = 5.0  # at least: each report is a request that costs money
REPORTS_SHARE = 0.05  # of a function's price, which its reports shall not cost more than
LINGER_SECONDS = 30.0
_LEAST_SHARE = 0.5  # of the duration: the margin never takes more than the rest
_NOWHERE = "127.0.0.1"  # functions cannot reach each other
_PORT = 29500


def event_for(
    spec: Spec,
    settings: FunctionsSettings,
    invocation: Invocation,
    objects: str,
    secrets: Mapping[str, str],
    limit_seconds: float | None,
) -> Event:
    """Everything that the function needs to know."""
    task, command, env = spec.task, *_process(spec, invocation.rank)
    return Event(
        objects=objects,
        task_id=task.id,
        rank=invocation.rank,
        invocation_id=invocation.invocation_id,
        run=command,
        setup=task.setup,
        envs={**task.envs, **env},
        secrets=dict(secrets),
        outputs=task.outputs,
        checkpoint_path=task.checkpoint_path,
        checkpoint_keep=task.checkpoint_keep,
        grace_seconds=task.grace_seconds,
        margin_seconds=margin_seconds(settings),
        linger_seconds=LINGER_SECONDS if spec.deployment.nodes > 1 else 0.0,
        tick_seconds=tick_seconds(settings, memory_of(spec.deployment.offer)),
        cores=spec.deployment.offer.instance.vcpus,
        limit_seconds=limit_seconds,
    )


def margin_seconds(settings: FunctionsSettings) -> float:
    """Before a function's time is up: when its program is asked to end."""
    return min(settings.margin_seconds, _LEAST_SHARE * settings.duration_seconds)


def tick_seconds(settings: FunctionsSettings, memory_mb: int) -> float:
    """Between two reports of a function: where each costs money a small one reports less often, and is not taken for lost."""
    if settings.tick_seconds:
        return settings.tick_seconds
    if not settings.endpoint:
        return TICK_HERE_SECONDS
    prices = prices_of(settings)
    affordable = prices.reports_usd_per_hour(1.0) / (REPORTS_SHARE * prices.usd_per_hour(memory_mb))
    seldom_enough = max(TICK_AWAY_SECONDS, affordable)
    return max(TICK_HERE_SECONDS, min(seldom_enough, settings.lost_seconds / 3.0))


def _process(spec: Spec, rank: int) -> tuple[str, dict[str, str]]:
    """The one process of a function, as the platform wants it."""
    platform: Platform = registry.load("platforms", spec.task.platform)()
    cores = max(1, math.ceil(spec.deployment.offer.instance.vcpus))
    node = Node(rank=rank, addresses=(_NOWHERE,) * spec.deployment.nodes, port=_PORT, cores=cores)
    processes = platform.processes(spec.task, spec.deployment, node)
    if len(processes) != 1:
        raise CloudError(
            f"A function runs one process; {spec.task.platform} wants {len(processes)} on node {rank}.",
            "Take a deployment without parameter servers.",
        )
    return processes[0].command, dict(processes[0].env)
