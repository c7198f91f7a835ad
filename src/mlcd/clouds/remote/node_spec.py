"""What each agent is told: the processes of its node, their environment, and the limits to keep."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from typing import Any

from mlcd import registry
from mlcd.clouds.remote.base import Machines
from mlcd.clouds.remote.files import Spec
from mlcd.clouds.remote.node import RemoteNode
from mlcd.platforms.base import Node, Platform
from mlcd.worker.fetch import OWN_MACHINE


def make_node_specs(
    spec: Spec,
    machines: Machines,
    nodes: Sequence[RemoteNode],
    secrets: Mapping[str, str],
    seconds_left: float | None,
    port: int,
) -> list[dict[str, Any]]:
    """One for each node, by rank. They hold the secrets: they are passed on, and never written down."""
    task = spec.task
    own = {OWN_MACHINE: "1"} if machines.power_off else {}  # others share what may not be powered off
    shared = {
        "task": task.id,
        "power_off": machines.power_off,
        "setup": task.setup,
        "env": {**own, **task.envs, **secrets},
        "path": os.path.dirname(machines.python) if "/" in machines.python else "",  # noqa: PTH120  # not of this computer
        "outputs": list(task.outputs),
        "checkpoint_path": task.checkpoint_path,
        "grace_seconds": task.grace_seconds,
        "seconds_left": seconds_left,
    }
    addresses = tuple(node.machine.address for node in nodes)
    return [{**shared, **_of_node(spec, machines, node, addresses, port)} for node in nodes]


def _of_node(spec: Spec, machines: Machines, node: RemoteNode, addresses: tuple[str, ...], port: int) -> dict[str, Any]:
    task, offer = spec.task, spec.deployment.offer_of(node.rank)
    instance = offer.instance
    platform: Platform = registry.load("platforms", task.platform)()
    gpus = tuple(str(number) for number in range(instance.gpus))
    place = Node(node.rank, addresses, port, max(1, int(instance.vcpus)), gpus)
    processes = platform.processes(task, spec.deployment, place)
    return {
        "rank": node.rank,
        "address": node.machine.address,
        "control": node.control,
        "lease": node.lease.file,
        "notice_url": machines.notice_url if offer.spot else "",
        "cores": instance.vcpus,
        "gpus": instance.gpus,
        "processes": [{"command": p.command, "env": p.env, "serves": p.serves} for p in processes],
    }
