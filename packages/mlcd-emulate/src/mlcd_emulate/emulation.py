"""The names by which everything of one emulation is found again, with or without its state file."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from mlcd.errors import NotFoundError, UserError

CONTROL_PATH = "/_emulation"  # of the endpoint, for faults; no bucket can be called so
CONTROL_HEADER = "X-Emulation-Key"
_NAME = re.compile(r"[a-z][a-z0-9]{0,9}")  # a network link has 15 letters, five of which are ours


@dataclass(frozen=True)
class Emulation:
    """One emulation: its folder, and names on the system that begin with its own."""

    name: str
    folder: Path

    @property
    def link(self) -> str:
        """The link by which this computer reaches the hosts."""
        return f"mlcd-{self.name}"

    @property
    def switch(self) -> str:
        """The network namespace that holds the switch."""
        return f"mlcd-{self.name}-switch"

    @property
    def namespaces(self) -> str:
        """What the names of all its network namespaces begin with."""
        return f"mlcd-{self.name}-"

    @property
    def cgroup(self) -> str:
        """The control group that holds the hosts' groups."""
        return f"mlcd-emulate-{self.name}"

    @property
    def state_file(self) -> Path:
        """Where the running emulation publishes its state."""
        return self.folder / "state.json"

    @property
    def log_file(self) -> Path:
        """What its process writes."""
        return self.folder / "emulation.log"

    def namespace(self, address: IPv4Address) -> str:
        """The network namespace of the host at this address."""
        return f"{self.namespaces}{_short(address)}"

    def host_folder(self, instance_id: str) -> Path:
        """What one host was booted from, and its console."""
        return self.folder / "hosts" / instance_id


@dataclass(frozen=True)
class State:
    """How to reach a running emulation."""

    name: str
    pid: int
    endpoint: str
    network: str
    region: str
    access_key_id: str
    secret_access_key: str
    control_key: str  # opens the door for faults; never given to the hosts
    vcpus_per_core: float
    vcpu_quota: int

    @property
    def public(self) -> dict[str, Any]:
        """What everyone may see of it."""
        hidden = ("secret_access_key", "control_key")
        return {key: value for key, value in asdict(self).items() if key not in hidden}

    @property
    def environment(self) -> dict[str, str]:
        """What AWS's tools need in their environment to use this emulation and nothing else."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
            "NO_PROXY": self.endpoint.removeprefix("http://").rpartition(":")[0],
        }


def emulation_named(name: str, parent: Path) -> Emulation:
    """The emulation of this name below a folder; it need not run."""
    if not _NAME.fullmatch(name):
        hint = "At most ten small letters and digits, a letter first: test1."
        raise UserError(f"An emulation cannot be called '{name}'.", hint)
    return Emulation(name, parent.absolute() / name)


def port_of(address: IPv4Address) -> str:
    """The switch's end of the link to the host at this address."""
    return f"p{_short(address)}"


def write_state(emulation: Emulation, state: State) -> None:
    """Publish the state; a reader finds all of it or nothing."""
    fresh = emulation.state_file.with_suffix(".part")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps(asdict(state), indent=2))
    fresh.replace(emulation.state_file)


def read_state(emulation: Emulation) -> State:
    """The state that the emulation published."""
    try:
        return State(**json.loads(emulation.state_file.read_text()))
    except FileNotFoundError:
        hint = f"Start it with: mlcd emulate up --name {emulation.name}"
        raise NotFoundError(f"No emulated EC2 called '{emulation.name}' is running.", hint) from None
    except (ValueError, TypeError) as error:
        hint = f"Clean up with: mlcd emulate down --name {emulation.name}"
        raise UserError(f"{emulation.state_file} cannot be read: {error}", hint) from error


def _short(address: IPv4Address) -> str:
    return f"{int(address) & 0xFFFF:04x}"
