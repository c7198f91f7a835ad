"""What each rank's function is invoked with."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mlcd import registry
from mlcd.clouds.functions.files import Spec, Stint
from mlcd.clouds.functions.orders import Event
from mlcd.clouds.tasks.environment import POLITE_THREADS
from mlcd.errors import CloudError
from mlcd.platforms.base import Node, Platform
from mlcd.settings import FunctionsSettings

TICK_HERE_SECONDS = 0.5
TICK_AWAY_SECONDS = 5.0  # each report is a request that costs money
LINGER_SECONDS = 30.0
_SHORTEST_STINT = 0.5  # of the duration: the margin never takes more than the rest
_NOWHERE = "127.0.0.1"  # functions cannot reach each other
_PORT = 29500


def event_for(
    spec: Spec,
    settings: FunctionsSettings,
    stint: Stint,
    objects: str,
    secrets: Mapping[str, str],
    until: float | None,
) -> Event:
    """Everything that the function needs to know."""
    task, command, env = spec.task, *_process(spec, stint.rank)
    return Event(
        objects=objects,
        task_id=task.id,
        rank=stint.rank,
        invocation=stint.invocation,
        run=command,
        setup=task.setup,
        envs={**POLITE_THREADS, **task.envs, **env},
        secrets=dict(secrets),
        outputs=task.outputs,
        checkpoint_path=task.checkpoint_path,
        checkpoint_keep=task.checkpoint_keep,
        grace_seconds=task.grace_seconds,
        margin_seconds=min(settings.margin_seconds, _SHORTEST_STINT * settings.duration_seconds),
        linger_seconds=LINGER_SECONDS if spec.deployment.nodes > 1 else 0.0,
        tick_seconds=settings.tick_seconds or (TICK_AWAY_SECONDS if settings.endpoint else TICK_HERE_SECONDS),
        until=until,
    )


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
