"""Everything that is compared, behind one call: all_reduce(gradient), with the seconds of its steps."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Protocol

import numpy as np
from cirrus import Cirrus
from cirrus_pipelined import PipelinedCirrus
from lambdaml import LambdaML, Objects, Store, Valkeys
from places import BUCKET, Places, s3_variables
from siren import Siren

from mlcd.sync import Group, join
from mlcd_functions.objects.base import ObjectStore, open_object_store

STEPS = ("UL-shard", "DL-shard", "UL-aggr", "DL-grad")
_VALKEYS = re.compile(r"(ours|LambdaML), (\d+) Valkeys?")


class System(Protocol):
    """One worker's end of a way to synchronise."""

    steps: dict[str, float]

    def all_reduce(self, gradient: np.ndarray) -> None: ...


def open_system(kind: str, places: Places, rank: int, parameters: int) -> System:
    """A worker's end of one system."""
    makers = {
        "ours, shm, no copies": lambda: _in_place(places, rank, parameters),
        "ours, shm": lambda: _ours(f"shm://{places.shm_name}", "shm", places, rank),
        "Siren, S3": lambda: Siren(_s3(places), rank, places.world_size),
        "Siren, folder": lambda: Siren(open_object_store(places.folder), rank, places.world_size),
        "Cirrus": lambda: Cirrus(places.cirrus),
        "Cirrus, pipelined": lambda: PipelinedCirrus(places.pipelined),
        "LambdaML, S3": lambda: _lambdaml(Objects(_s3(places)), places, rank),
        "gloo": lambda: Gloo(places, rank),
        "memory copy": MemoryCopy,
    }
    if (servers := valkeys_of(kind)) == 0:
        return makers[kind]()
    urls = places.server_urls[:servers]
    if kind.startswith("LambdaML"):
        return _lambdaml(Valkeys(urls), places, rank)
    return _ours(",".join(urls), f"valkeys-{servers}", places, rank)


def servers_of(kind: str) -> int:
    """How many servers a system rents; an object store is paid by request."""
    return valkeys_of(kind) or int(kind.startswith("Cirrus"))


def valkeys_of(kind: str) -> int:
    """How many of them are Valkeys."""
    found = _VALKEYS.fullmatch(kind)
    return int(found[2]) if found else 0


def _ours(url: str, name: str, places: Places, rank: int) -> Ours:
    return Ours(join(url, rank, places.world_size, name=name))


def _in_place(places: Places, rank: int, parameters: int) -> Ours:
    group = join(f"shm://{places.shm_name}", rank, places.world_size, name="in-place")
    return Ours(group, group.empty(parameters))


def _lambdaml(store: Store, places: Places, rank: int) -> LambdaML:
    return LambdaML(store, rank, places.world_size)


def _s3(places: Places) -> ObjectStore:
    os.environ.update(s3_variables(places.s3_endpoint))
    return open_object_store(f"s3://{BUCKET}/run")


class Ours:
    """Hierarchical synchronisation through one of our parameter stores."""

    def __init__(self, group: Group, gradient: np.ndarray | None = None) -> None:
        self.group = group
        self.gradient = gradient  # in shared memory, where there is one

    @property
    def steps(self) -> dict[str, float]:
        times = self.group.times
        return dict(zip(STEPS, (times.ul_shard_s, times.dl_shard_s, times.ul_aggr_s, times.dl_grad_s), strict=True))

    def all_reduce(self, gradient: np.ndarray) -> None:
        self.group.all_reduce(gradient)


class Gloo:
    """torch's all-reduce between processes that reach each other."""

    def __init__(self, places: Places, rank: int) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        if places.network is not None:
            os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
        address = "tcp://{}:{}".format(*places.gloo)
        dist.init_process_group("gloo", init_method=address, rank=rank, world_size=places.world_size)
        self._torch, self._dist = torch, dist
        self.steps: dict[str, float] = {}

    def all_reduce(self, gradient: np.ndarray) -> None:
        self._dist.all_reduce(self._torch.from_numpy(gradient))


class MemoryCopy:
    """Every worker copies as many bytes as its gradient has: the least that anything could take."""

    steps: dict[str, float] = {}  # noqa: RUF012  # there are none

    def all_reduce(self, gradient: np.ndarray) -> None:
        half = gradient.size // 2
        gradient[:half] = gradient[half : 2 * half]
        gradient[half : 2 * half] = gradient[:half]


def cpu_seconds(pids: tuple[int, ...]) -> float:
    """Processor time that these processes have used, all threads together."""
    files = (path for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(path.read_text().split()[0]) for path in files) / 1e9


def busy_seconds() -> float:
    """Processor time that this computer has not been idle, the kernel's and everybody's work included."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
