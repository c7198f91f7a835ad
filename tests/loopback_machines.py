"""Machines for rent on this computer: one sshd, a folder for each machine, and a provider whose records are files."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.base import CommandResult, Machine, Notes, Reach
from mlcd.clouds.remote.cloud import RemoteCloud
from mlcd.clouds.remote.files import Spec, State
from mlcd.clouds.remote.ssh import SshReach, make_key
from mlcd.clouds.tasks.processes import end_marked
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Charge, Owned
from mlcd.errors import NoCapacityError

OFFER = Offer("loopback", InstanceType("small", vcpus=1, memory_gib=1), usd_per_hour=0.36, max_nodes=4)


class LoopbackMachines:
    """A provider whose books are a folder: a file for each machine that is rented, a line for each call."""

    control = ""
    notice_url = ""
    python = "python3"
    power_off = ""
    may_have_rented = False

    def __init__(self, home: Path, options: Mapping[str, Any]) -> None:
        self._home = home
        self._options = options
        self._books = Path(options["books"])
        self._books.mkdir(parents=True, exist_ok=True)
        self.lease_seconds = float(options.get("lease_seconds", 600.0))
        self.lost_seconds = float(options.get("lost_seconds", 5.0))
        self.keep_seconds = float(options.get("keep_seconds", 0.0))
        self.notice_url = str(options.get("notice_url", ""))

    def acquire(self, task_id: str, job_id: str, deployment: Deployment, had: Sequence[Machine]) -> Sequence[Machine]:
        """Those at hand and new ones; more than four in all are not to be had."""
        self._wait_at("rent_gate")
        mine = {machine.id: machine for machine in [*self.find(task_id), *had]}
        missing = deployment.nodes - len(mine)
        if missing > OFFER.max_nodes - len(self._all()):
            raise NoCapacityError("There are four machines here.", "Ask for fewer.")
        for _ in range(missing):
            machine = self._rent(task_id, job_id)
            mine[machine.id] = machine
        return list(mine.values())

    def locate(self, machines: Sequence[Machine]) -> Sequence[Machine]:
        return machines

    def find(self, task_id: str) -> Sequence[Machine]:
        return [machine for machine in self._all() if machine.details["task"] == task_id]

    def why_gone(self, machine: Machine) -> str:
        return ""

    def ended_at(self, machine: Machine) -> float | None:
        return None

    def adopt(self, machines: Sequence[Machine], task_id: str) -> None:
        for machine in machines:
            self._write(replace(machine, details={**machine.details, "task": task_id}))

    def release(self, machines: Sequence[Machine]) -> None:
        for machine in machines:
            self._record("release", machine.id)
            (self._books / f"{machine.id}.json").unlink(missing_ok=True)
            power_off(Path(machine.details["base"]))

    def renewed(self, machines: Sequence[Machine], until: float) -> None:
        """These books have no lease."""

    def reach(self, machine: Machine) -> Reach:
        known = self._home / "known" / machine.id
        key = Path(self._options["key"])
        user = self._options["user"]
        base, port = machine.details["base"], self._options["port"]
        return _Gated(self._wait_at, "127.0.0.1", user, key, known, base, port)

    def owned(self) -> list[Machine]:
        """Everything that is rented."""
        return self._all()

    def _wait_at(self, name: str) -> None:
        """Take as long as a test wants: while a file is there, if the test names one."""
        while self._options.get(name) and Path(self._options[name]).exists():
            time.sleep(0.05)

    def _rent(self, task_id: str, job_id: str) -> Machine:
        number = len(list(self._books.glob("../bases/*"))) + 1
        base = self._books.parent / "bases" / f"m-{number}"
        base.mkdir(parents=True)
        machine = Machine(
            f"m-{number}",
            "127.0.0.1",
            "127.0.0.1",
            time.time(),
            details={"task": task_id, "job": job_id, "base": str(base)},
        )
        self._record("rent", machine.id)
        self._write(machine)
        return machine

    def _record(self, act: str, machine_id: str) -> None:
        with (self._books.parent / "calls").open("a") as file:
            file.write(f"{act} {machine_id}\n")

    def _write(self, machine: Machine) -> None:
        draft = self._books / f".{machine.id}"
        draft.write_text(json.dumps(machine.__dict__))
        draft.replace(self._books / f"{machine.id}.json")

    def _all(self) -> list[Machine]:
        return [Machine(**json.loads(file.read_text())) for file in sorted(self._books.glob("*.json"))]


class _Gated(SshReach):
    """A machine to which sending, or starting the agent of any but the first, takes as long as a test wants."""

    def __init__(self, wait_at: Callable[[str], None], *way: Any) -> None:
        super().__init__(*way)
        self._wait_at = wait_at

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        if "remote.agent start" in command and not self.base.endswith("m-1"):
            self._wait_at("start_gate")
        return super().run(command, stdin, seconds)

    def put(self, archive: Path, folder: str) -> None:
        self._wait_at("put_gate")
        super().put(archive, folder)


def open_machines(home: Path, options: Mapping[str, Any], notes: Notes) -> LoopbackMachines:
    """For the runner."""
    return LoopbackMachines(home, options)


class LoopbackCloud(RemoteCloud):
    """A cloud of machines that are all this computer."""

    name = "loopback"
    poll_seconds = 0.2
    provider = "loopback_machines:open_machines"

    def __init__(self, home: Path, options: dict[str, Any]) -> None:
        super().__init__(home)
        self._options = {"books": str(home / "books"), **options}

    def offers(self) -> Sequence[Offer]:
        return [OFFER]

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        return ProbeTime(5.0 + measuring_seconds)

    def owned(self) -> Iterable[Owned]:
        tasks = {machine.details["task"]: machine for machine in self.machines().owned()}
        return [
            Owned(task, task, machine.details["job"], "small", machine.billed_from) for task, machine in tasks.items()
        ]

    def charges(self, spec: Spec, state: State, now: float) -> tuple[Charge, ...]:
        seconds = now - (state.started_at or now)
        return (Charge("machines", seconds, spec.deployment.usd(seconds)),)

    def machines(self) -> LoopbackMachines:
        return LoopbackMachines(self.home, self._options)

    def options(self, deployment: Deployment) -> dict[str, Any]:
        return self._options

    def calls(self) -> list[str]:
        """All that the provider was asked for: 'rent m-1', 'release m-1'."""
        file = Path(self._options["books"]).parent / "calls"
        return file.read_text().splitlines() if file.exists() else []


def power_off(base: Path) -> None:
    """What the end of a machine means here: nothing of it runs any more, and its disk is gone."""
    for root in (base / "tasks").glob("*"):
        end_marked(root, patience_seconds=5.0)
    shutil.rmtree(base, ignore_errors=True)


@dataclass(frozen=True)
class Door:
    """A running sshd, and the key that opens it."""

    port: int
    key: Path
    user: str

    @property
    def options(self) -> dict[str, Any]:
        """For LoopbackCloud."""
        return {"port": self.port, "key": str(self.key), "user": self.user}


@contextmanager
def open_door(folder: Path) -> Iterator[Door]:
    """An sshd on the loopback, for as long as it is needed."""
    key = folder / "key"
    (folder / "authorized_keys").write_text(make_key(key) + "\n")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "host")], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "home").mkdir()  # the start files of whoever runs the tests may take longer than what is tested
    (folder / "config").write_text(_CONFIG.format(folder=folder, port=port))
    if os.geteuid() == 0:  # where its unprivileged part lives
        Path("/run/sshd").mkdir(parents=True, exist_ok=True)
    sshd = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.DEVNULL)
    try:
        _wait_until_it_listens(port)
        yield Door(port, key, subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip())
    finally:
        sshd.terminate()
        sshd.wait()


def _wait_until_it_listens(port: int, seconds: float = 60.0) -> None:
    give_up_at = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5.0).close()
        except ConnectionRefusedError:
            assert time.monotonic() < give_up_at, "sshd does not listen"
            time.sleep(0.05)
        else:
            return


_CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PidFile none
PrintMotd no
MaxStartups 100
MaxSessions 100
SetEnv HOME={folder}/home
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
"""
