"""Makes the nodes ready: cores, addresses, working copies, mounts and environment."""

from __future__ import annotations

import os
import random
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from mlcd import registry
from mlcd.clouds.local.exchange import exchange_environment
from mlcd.clouds.local.files import Spec, copies_folder
from mlcd.clouds.local.places import Taken, cores_by_rank, gpus_by_rank, share
from mlcd.clouds.tasks.copies import LARGE_BYTES, copy_workdir, mount
from mlcd.clouds.tasks.environment import node_environment
from mlcd.clouds.tasks.files import checkpoint_folder
from mlcd.clouds.tasks.node import NodePrograms
from mlcd.clouds.tasks.processes import MARKER
from mlcd.clouds.tasks.programs import Program
from mlcd.core.task import TaskFolder
from mlcd.platforms.base import Node, Platform
from mlcd.worker.bundle import write_bundle

_HOST = "127.0.0.1"
_PORTS = range(20000, 32000)  # below those that the system hands out by itself


class LocalNode(NodePrograms):
    """A node with its own cores, folder and log, and the programs that shall run on it."""

    def __init__(self, node: Node, processors: frozenset[int], folder: Path, log: Path) -> None:
        super().__init__(folder, log, processors)
        self.node = node
        self.programs: list[Program] = []


def prepare(
    spec: Spec,
    taken: Taken,
    folder: TaskFolder,
    marker: Path,
    secrets: Mapping[str, str],
    check: Callable[[], None],
) -> list[LocalNode]:
    """Every node of the deployment, ready to start."""
    write_bundle(_worker(folder))
    own = {**spec.task.envs, **secrets, **exchange_environment(spec.deployment, marker), MARKER: str(marker)}
    return [_prepare_one(spec, node, taken, folder, own, check) for node in _nodes(spec, taken)]


def _prepare_one(
    spec: Spec,
    node: Node,
    taken: Taken,
    folder: TaskFolder,
    own: Mapping[str, str],
    check: Callable[[], None],
) -> LocalNode:
    cores = share(taken.cores, cores_by_rank(spec.deployment), node.rank)
    processors = frozenset(spec.cores[core] for core in cores)
    copy = copies_folder(folder) / f"node-{node.rank}"
    local = LocalNode(node, processors, copy, folder.log(node.rank))
    checkpoints = checkpoint_folder(spec.task, folder)
    env = node_environment(
        users_environment(os.environ),
        own,
        [str(_worker(folder))],
        copy=copy,
        progress=folder.progress,
        checkpoints=checkpoints,
        outputs=folder.outputs,
    )
    platform: Platform = registry.load("platforms", spec.task.platform)()
    for process in platform.processes(spec.task, spec.deployment, node):
        local.programs.append(Program(process.command, {**env, **process.env}, process.serves))
    _fill_copy(spec, local, check)
    local.restore(checkpoints, spec.task.checkpoint_path)
    return local


def _worker(folder: TaskFolder) -> Path:
    return copies_folder(folder) / "worker"


def users_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's environment as their shell has it, with the Python that runs mlcd first where no other is active."""
    env = {name: value for name, value in environ.items() if not name.startswith("MLCD_")}
    in_venv = sys.prefix != sys.base_prefix
    if in_venv and not env.get("VIRTUAL_ENV") and not env.get("CONDA_PREFIX"):
        env["VIRTUAL_ENV"] = sys.prefix
        env["PATH"] = os.pathsep.join([str(Path(sys.prefix, "bin")), env.get("PATH", os.defpath)])
    return env


def _nodes(spec: Spec, taken: Taken) -> list[Node]:
    count, cores, gpus = spec.deployment.nodes, cores_by_rank(spec.deployment), gpus_by_rank(spec.deployment)
    port = free_ports(1 + count)
    return [
        Node(
            rank=rank,
            addresses=(_HOST,) * count,
            port=port,
            cores=cores[rank],
            gpus=tuple(share(taken.gpus, gpus, rank)),
        )
        for rank in range(count)
    ]


def _fill_copy(spec: Spec, node: LocalNode, check: Callable[[], None]) -> None:
    node.folder.mkdir(parents=True, exist_ok=True)
    workdir = Path(spec.task.workdir)
    if spec.task.workdir:
        copied = copy_workdir(workdir, node.folder, skip=Path(spec.home).parent.resolve(), check=check)
        if copied > LARGE_BYTES:
            node.say(f"the working copy of {workdir} holds {copied / 2**30:.1f} GiB; file_mounts are linked when large")
    for target in mount(spec.task.file_mounts, workdir, node.folder, check):
        node.say(f"{target} is large and was linked, not copied: the program should not write to it")


def free_ports(count: int) -> int:
    """The first of so many ports of this computer, one after the other, that no one listens on."""
    for _ in range(100):
        port = random.choice(_PORTS)  # noqa: S311  two runners must not choose alike, that is all
        if all(_is_free(port + more) for more in range(count)):
            return port
    raise OSError(f"no {count} free ports in a row between 20000 and 32000")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_HOST, port)) != 0
