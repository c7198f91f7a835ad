"""How long code and data take to several machines: from home to each, or to the first one, which passes them on.

    sudo python benchmarks/emulated_ec2/delivery.py --hosts 1 2 4 8 --mib 16 --home-mbit 20

The link between this computer and the emulated hosts is slowed to what a good connection at home sends; the hosts have
the network of their type by the scale of the emulation. Random data, which no packing makes smaller.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from mlcd.clouds.remote.archives import Archive, make_archives
from mlcd.clouds.remote.base import Machine, UnreachableError
from mlcd.clouds.remote.node import RemoteNode
from mlcd.clouds.remote.ssh import SshReach, make_key
from mlcd.clouds.remote.upload import Upload
from mlcd.core.task import Task, TaskFolder, TaskKind
from mlcd_emulate.client import EmulationOptions, down, up
from mlcd_emulate.emulation import Emulation, State, emulation_named

IMAGE = "ami-0e301ab0e301ab022"
PATIENCE_S = 120.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--type", default="c5.xlarge")
    parser.add_argument("--mib", type=int, default=16)
    parser.add_argument("--home-mbit", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        emulation = emulation_named("delivery", Path(folder) / "emulate")
        try:
            state = up(emulation, EmulationOptions(owner=os.getpid()))
            archives = packed(Path(folder), given.mib)
            slow_down(emulation, given.home_mbit)
            print("| hosts | from home to each, s | passed on by the first, s |\n|---|---|---|")
            for count in given.hosts:
                with machines(state, Path(folder), given.type, count) as nodes:
                    print(
                        f"| {count} | {to_each(nodes, archives):.1f} | {passed_on(nodes, archives):.1f} |",
                        flush=True,
                    )
        finally:
            down(emulation)


def packed(folder: Path, mib: int) -> list[Archive]:
    """What a task with that much data is sent."""
    (folder / "code").mkdir()
    (folder / "code" / "data").write_bytes(os.urandom(mib << 20))
    task = Task("t", "j", TaskKind.TRAINING, "command", "true", workdir=str(folder / "code"))
    return make_archives(task, folder / "none", folder / "none", folder / "drafts")


def slow_down(emulation: Emulation, mbit: int) -> None:
    """Shape what this computer sends to the hosts."""
    shape = f"tc qdisc replace dev {emulation.link} root tbf rate {mbit}mbit burst 64kb latency 400ms"
    subprocess.run(shape.split(), check=True)


@contextmanager
def machines(state: State, folder: Path, instance_type: str, count: int) -> Iterator[list[RemoteNode]]:
    """So many hosts that answer."""
    client = boto3.client(
        "ec2",
        endpoint_url=state.endpoint,
        region_name=state.region,
        aws_access_key_id=state.access_key_id,
        aws_secret_access_key=state.secret_access_key,
    )
    key = folder / "key"
    if not key.exists():
        client.import_key_pair(KeyName="delivery", PublicKeyMaterial=make_key(key).encode())
    launch = {"ImageId": IMAGE, "InstanceType": instance_type, "KeyName": "delivery"}
    made = client.run_instances(MinCount=count, MaxCount=count, **launch)["Instances"]
    try:
        yield [node(rank, one, folder) for rank, one in enumerate(made)]
    finally:
        client.terminate_instances(InstanceIds=[one["InstanceId"] for one in made])
        time.sleep(3.0)


def node(rank: int, one: dict[str, Any], folder: Path) -> RemoteNode:
    """A host as a task runner sees it, once it answers."""
    address = one["PrivateIpAddress"]
    machine = Machine(one["InstanceId"], address, address, time.time())
    reach = SshReach(address, "ubuntu", folder / "key", folder / "known" / machine.id, "/home/ubuntu/mlcd")
    found = RemoteNode(rank, machine, reach, "t", "", TaskFolder(folder / "task"))
    found.wait_until_reachable(_patient())
    reach.run(f"mkdir -p {reach.base}")
    found.make_room(3600.0)
    return found


def to_each(nodes: list[RemoteNode], archives: list[Archive]) -> float:
    """All of it from home to every host, side by side."""
    return took(lambda: side_by_side(lambda node: node.send(archives), nodes))


def passed_on(nodes: list[RemoteNode], archives: list[Archive]) -> float:
    """As tasks are sent."""
    delivery = Upload(archives, nodes, sys.executable)
    return took(lambda: [side_by_side(act, nodes) for act in (delivery.send, delivery.relay)])


def side_by_side(act: Callable[[RemoteNode], None], nodes: list[RemoteNode]) -> None:
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(act, nodes))


def took(act: Callable[[], Any]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def _patient() -> Callable[[], None]:
    until = time.monotonic() + PATIENCE_S

    def check() -> None:
        if time.monotonic() > until:
            raise UnreachableError("a host does not answer")

    return check


if __name__ == "__main__":
    main()
