"""What a person or a test asks of an emulation: up, down, status, fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from mlcd.errors import CloudError, NotFoundError, UserError
from mlcd_emulate.cleaning import MODULE, Removed, is_running, refuse_another_home, remove_emulation
from mlcd_emulate.needs import require_all, require_root
from mlcd_emulate.network import one_at_a_time
from mlcd_emulate.place import CONTROL_HEADER, CONTROL_PATH, Place, State, read_state
from mlcd_emulate.scale import VCPUS_PER_CORE, vcpus_that_fit

_START_S = 120.0
_ANSWER_S = 60.0


@dataclass(frozen=True)
class Wanted:
    """What an emulation is to be like."""

    region: str = "us-east-1"
    vcpus: int = 0  # the quota; 0: as many as this computer can bear
    vcpus_per_core: float = VCPUS_PER_CORE
    network: str = ""  # 10.80.0.0/16; empty: one that is free
    port: int = 0  # 0: one that is free
    private: tuple[Path, ...] = ()  # folders that hosts do not see
    owner: int = 0  # a process that the emulation does not outlive; 0: it stays until `down`


def up(place: Place, wanted: Wanted) -> State:
    """Start an emulation and wait until it answers; one that runs already stays as it is."""
    require_all()
    _check(place, wanted)
    with one_at_a_time():  # of two homes that start the same name together, one is refused
        refuse_another_home(place)
        if is_running(place):
            return read_state(place)
        remove_emulation(place)  # what a killed one left
        _take(place)
        process = _start(place, wanted)
    return _wait_until_ready(place, process)


def down(place: Place) -> Removed:
    """Remove an emulation and everything that it made; quiet where there is none."""
    require_root()
    refuse_another_home(place)
    return remove_emulation(place)


def status(place: Place) -> dict[str, Any]:
    """How an emulation stands: its endpoint, its hosts, what is wrong on purpose."""
    state = _running(place)
    return {**state.public, **_ask(state, {})}


def fault(place: Place, kind: str, target: str, value: str = "") -> str:
    """Let something go wrong, or right again with the value 'off'; gives what was done, in words."""
    answer = _ask(_running(place), {"fault": {"kind": kind, "target": target, "value": value}})
    if "error" in answer:
        raise (NotFoundError if answer["missing"] else UserError)(answer["error"], answer["hint"])
    return str(answer["done"])


def emulations(parent: Path) -> list[str]:
    """The names of the emulations whose folders lie here."""
    return sorted(each.parent.name for each in parent.glob("*/state.json"))


def _check(place: Place, wanted: Wanted) -> None:
    if any(letter in str(place.folder) for letter in ":, \t\n\\"):
        raise UserError(
            f"The folder {place.folder} cannot hold disks: its name has a colon, a comma or a space."
        )
    if wanted.vcpus_per_core < 1:
        raise UserError(f"{wanted.vcpus_per_core:g} vCPUs a core make machines larger than this computer.")
    if wanted.network:
        try:
            fits = IPv4Network(wanted.network).prefixlen == 16
        except ValueError as error:
            raise UserError(
                f"'{wanted.network}' is no range of addresses: {error}", "10.80.0.0/16"
            ) from error
        if not fits:
            raise UserError(f"{wanted.network} has not the size /16.", "10.80.0.0/16")


def _take(place: Place) -> None:
    place.folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.folder.mkdir(mode=0o700)
    except FileExistsError:
        raise UserError(
            f"Someone else is starting '{place.name}' right now.", "Try again in a moment."
        ) from None


def _start(place: Place, wanted: Wanted) -> subprocess.Popen[bytes]:
    vcpus = wanted.vcpus or vcpus_that_fit(len(os.sched_getaffinity(0)), wanted.vcpus_per_core)
    command = [sys.executable, "-m", MODULE, "--name", place.name, "--folder", str(place.folder)]
    command += [
        "--region",
        wanted.region,
        "--vcpus",
        str(vcpus),
        "--vcpus-per-core",
        str(wanted.vcpus_per_core),
    ]
    command += ["--port", str(wanted.port), "--network", wanted.network, "--owner", str(wanted.owner)]
    for folder in (place.folder.parent, *wanted.private):
        command += ["--private", str(folder)]
    with place.log_file.open("ab") as log:
        return subprocess.Popen(
            command,
            cwd="/",
            env=_clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _clean_environment() -> dict[str, str]:
    """Nobody's AWS credentials or endpoint reach the emulation itself."""
    return {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}


def _wait_until_ready(place: Place, process: subprocess.Popen[bytes]) -> State:
    until = time.monotonic() + _START_S
    while not place.state_file.exists():
        if process.poll() is not None or time.monotonic() > until:
            said = place.log_file.read_text(errors="replace").strip().splitlines()[-5:]
            remove_emulation(place)
            raise CloudError("The emulated EC2 did not start:\n" + "\n".join(said))
        time.sleep(0.05)
    return read_state(place)


def _running(place: Place) -> State:
    state = read_state(place)
    if not is_running(place):
        hint = f"Clean up with: mlcd emulate down --name {place.name}"
        raise NotFoundError(f"The emulated EC2 called '{place.name}' was killed.", hint)
    return state


def _ask(state: State, request: Mapping[str, Any]) -> dict[str, Any]:
    message = urllib.request.Request(  # noqa: S310  our own endpoint
        state.endpoint + CONTROL_PATH,
        data=json.dumps(request).encode(),
        headers={CONTROL_HEADER: state.control_key, "Content-Type": "application/json"},
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(message, timeout=_ANSWER_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (urllib.error.URLError, TimeoutError) as error:
        raise CloudError(f"The emulated EC2 at {state.endpoint} does not answer: {error}") from error
