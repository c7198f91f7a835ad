"""How long the hosts of an emulated EC2 take from RunInstances to ssh, and from TerminateInstances to being gone.

    sudo python benchmarks/emulated_ec2/boot_time.py 1 8 16

Each host counts when an ssh server greets at its address; the table has the last of them.
"""

from __future__ import annotations

import argparse
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import boto3

from mlcd_emulate.client import EmulationOptions, down, up
from mlcd_emulate.emulation import Emulation, emulation_named
from mlcd_emulate.network import namespaces_of

IMAGE = "ami-0e301ab0e301ab022"
PATIENCE_S = 300.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hosts", type=int, nargs="*", default=[1, 8, 16])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    emulation = emulation_named("boottime", Path(tempfile.mkdtemp()) / "emulate")
    try:
        began = time.monotonic()
        state = up(emulation, EmulationOptions())
        print(f"up: {time.monotonic() - began:.1f} s\n")
        environment = state.environment
        client = boto3.client(
            "ec2",
            endpoint_url=state.endpoint,
            region_name=state.region,
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        )
        client.describe_instances()  # the first request of all loads the region
        print("| hosts | RunInstances to ssh, s | TerminateInstances to gone, s |\n|---|---|---|")
        for count in given.hosts:
            rounds = [one_round(emulation, client, count) for _ in range(given.rounds)]
            booted, gone = (sorted(each) for each in zip(*rounds, strict=True))
            print(f"| {count} | {_spread(booted)} | {_spread(gone)} |", flush=True)
    finally:
        down(emulation)


def one_round(emulation: Emulation, client: Any, count: int) -> tuple[float, float]:
    """Launch and terminate so many hosts; gives the seconds that each took."""
    began = time.monotonic()
    made = client.run_instances(ImageId=IMAGE, InstanceType="c5.large", MinCount=count, MaxCount=count)["Instances"]
    for instance in made:
        _wait(lambda address=instance["PrivateIpAddress"]: _greets(address))
    booted = time.monotonic() - began
    began = time.monotonic()
    client.terminate_instances(InstanceIds=[each["InstanceId"] for each in made])
    _wait(lambda: namespaces_of(emulation) == [emulation.switch])
    return booted, time.monotonic() - began


def _greets(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), 0.2) as connection:
            connection.settimeout(5)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _wait(condition: Any) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("a host did not come up, or did not go")
        time.sleep(0.02)


def _spread(seconds: list[float]) -> str:
    middle = seconds[len(seconds) // 2]
    return f"{middle:.1f} ({seconds[0]:.1f} to {seconds[-1]:.1f})"


if __name__ == "__main__":
    main()
