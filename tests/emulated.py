"""An emulated EC2 for tests: real hosts with sshd behind AWS's API, on this computer.

    from emulated import emulated_ec2

    def test_a_machine_is_reached(tmp_path):
        with emulated_ec2(tmp_path) as ec2:          # skips the test, with the reason, where none can run
            ec2.env                                  # AWS_ENDPOINT_URL, credentials and region; nothing else differs
            client = ec2.boto("ec2")                 # a boto3 client of that endpoint, blind to this computer's AWS files
            (one,) = ec2.launch(1)                   # RunInstances of c5.large; waits until ssh answers
            ec2.ssh(one, "hostname")                 # as user ubuntu (or user="root"), with the imported key
            ec2.fault("slow", one, "4")              # mlcd emulate fault slow …; "off" lifts it
            ec2.hosts()                              # as `mlcd emulate status` tells them

    module scope: `with emulated_ec2(tmp_path_factory.mktemp("ec2")) as ec2: yield ec2` in a fixture saves four seconds a test.

Images: `ec2.image` (any of DescribeImages boots the same host); their users are ubuntu, ec2-user and root.
The vCPU quota is 34 on two cores (16 hosts of c5.large); `emulated_ec2(…, vcpus=8)` makes it smaller.
Wait for conditions with `wait_for`, which is patient: the machine may be ten times slower than yours.
"""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mlcd_emulate.client import EmulationOptions, down, fault, status, up
from mlcd_emulate.emulation import Emulation, State, emulation_named
from mlcd_emulate.needs import why_not

PATIENCE_S = 120.0
_SSH = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR")


@dataclass(frozen=True)
class EmulatedEc2:
    """An emulation that runs."""

    emulation: Emulation
    state: State
    key_file: Path
    key_name: str = "test"
    image: str = "ami-0e301ab0e301ab022"

    @property
    def env(self) -> dict[str, str]:
        """What AWS's tools need in their environment; no file of this computer's is read."""
        nowhere = str(self.emulation.folder / "none")
        files = {"AWS_CONFIG_FILE": nowhere, "AWS_SHARED_CREDENTIALS_FILE": nowhere}
        return {**self.state.environment, **files, "AWS_EC2_METADATA_DISABLED": "true"}

    def boto(self, service: str, **more: Any) -> Any:
        """A boto3 client of this endpoint."""
        given = {
            "endpoint_url": self.state.endpoint,
            "region_name": self.state.region,
            "aws_access_key_id": self.state.access_key_id,
            "aws_secret_access_key": self.state.secret_access_key,
        }
        return _client(service, tuple(sorted({**given, **more}.items())))

    def fault(self, kind: str, target: str, value: str = "") -> str:
        """Let something go wrong; the value 'off' lifts it."""
        return fault(self.emulation, kind, target, value)

    def hosts(self) -> list[dict[str, Any]]:
        """The hosts that run."""
        return list(status(self.emulation)["hosts"])

    def launch(self, count: int = 1, instance_type: str = "c5.large", **more: Any) -> list[str]:
        """Instances that ssh reaches; gives their addresses, which are public and private in one."""
        given = {"MinCount": count, "MaxCount": count, "InstanceType": instance_type}
        made = self.boto("ec2").run_instances(ImageId=self.image, KeyName=self.key_name, **{**given, **more})
        addresses = [each["PrivateIpAddress"] for each in made["Instances"]]
        for address in addresses:
            wait_for(lambda address=address: self._answers(address), f"ssh to {address}")
        return addresses

    def _answers(self, address: str) -> bool:
        if self.ssh(address, "true").returncode == 0:
            return True
        state = self.instance(address)["State"]["Name"]
        assert state in ("pending", "running"), f"{state}: {self.emulation.log_file.read_text()[-2000:]}"
        return False

    def instance(self, address: str) -> dict[str, Any]:
        """What DescribeInstances tells of the instance that has, or had last, this address."""
        found = self.boto("ec2").describe_instances()["Reservations"]
        every = [one for each in found for one in each["Instances"]]
        return dict(next(one for one in reversed(every) if one.get("PrivateIpAddress") == address))

    def ssh(self, address: str, command: str, user: str = "ubuntu", patience_s: float = 60.0) -> Any:
        """Run a command there; gives the ended process with its output as text."""
        line = (
            "ssh",
            "-i",
            str(self.key_file),
            *_SSH,
            "-o",
            "ConnectTimeout=5",
            f"{user}@{address}",
            command,
        )
        return subprocess.run(
            line, capture_output=True, text=True, timeout=patience_s, check=False, stdin=subprocess.DEVNULL
        )

    def instances(self) -> list[str]:
        """Those that are rented, be it that their hosts are still about to boot."""
        alive = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        found = self.boto("ec2").describe_instances(Filters=alive)["Reservations"]
        return [one["InstanceId"] for each in found for one in each["Instances"]]

    def terminate_all(self) -> None:
        """Leave no host to the next test."""
        ids = self.instances()
        if ids:
            self.boto("ec2").terminate_instances(InstanceIds=ids)
        wait_for(lambda: not self.hosts(), "the hosts to be gone")


@contextmanager
def emulated_ec2(folder: Path, **wanted: Any) -> Iterator[EmulatedEc2]:
    """An emulation of one's own, gone at the end or when the tests are killed; `wanted` are the fields of mlcd_emulate.client.EmulationOptions."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    emulation = emulation_named(f"t{uuid.uuid4().hex[:8]}", folder / "emulate")
    try:
        ec2 = EmulatedEc2(emulation, up(emulation, EmulationOptions(**{"owner": os.getpid(), **wanted})), _key(folder))
        public = ec2.key_file.with_suffix(".pub").read_bytes()
        ec2.boto("ec2").import_key_pair(KeyName=ec2.key_name, PublicKeyMaterial=public)
        yield ec2
    finally:
        down(emulation)


def wait_for(condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """The condition's value once it is true."""
    until = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < until, f"{what} did not come within {patience_s:.0f} s"
        time.sleep(0.1)
    return found


@cache
def _client(service: str, given: tuple[tuple[str, Any], ...]) -> Any:
    """Making one takes longer than most requests."""
    import boto3

    return boto3.session.Session().client(service, **dict(given))


def _key(folder: Path) -> Path:
    file = folder / "id_ed25519"
    line = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file))
    subprocess.run(line, check=True, env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")})
    return file
