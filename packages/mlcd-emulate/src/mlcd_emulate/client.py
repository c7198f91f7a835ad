"""Start, stop, inspect and break an emulation: up, down, status, fault."""

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
from mlcd_emulate.cleanup import MODULE, CleanupResult, is_running, refuse_another_home, remove_emulation
from mlcd_emulate.emulation import CONTROL_HEADER, CONTROL_PATH, Emulation, State, read_state
from mlcd_emulate.needs import require_all, require_root
from mlcd_emulate.network import one_at_a_time
from mlcd_emulate.scale import VCPUS_PER_CORE, vcpus_that_fit

_START_S = 120.0
_ANSWER_S = 60.0


@dataclass(frozen=True)
class EmulationOptions:
    """How an emulation is to be started."""

    region: str = "us-east-1"
    vcpus: int = 0  # the quota; 0: as many as this computer can bear
    vcpus_per_core: float = VCPUS_PER_CORE
    network: str = ""  # 10.80.0.0/16; empty: one that is free
    port: int = 0  # 0: one that is free
    private: tuple[Path, ...] = ()  # folders that hosts do not see
    owner: int = 0  # a process that the emulation does not outlive; 0: it stays until `down`


def up(emulation: Emulation, options: EmulationOptions) -> State:
    """Start an emulation and wait until it answers; one that runs already stays as it is."""
    _check(emulation, options)
    require_all()
    with one_at_a_time():  # of two homes that start the same name together, one is refused
        refuse_another_home(emulation)
        if is_running(emulation):
            return read_state(emulation)
        remove_emulation(emulation)  # what a killed one left
        _take(emulation)
        process = _start(emulation, options)
    return _wait_until_ready(emulation, process)


def down(emulation: Emulation) -> CleanupResult:
    """Remove an emulation and everything that it made; quiet where there is none."""
    require_root()
    refuse_another_home(emulation)
    return remove_emulation(emulation)


def status(emulation: Emulation) -> dict[str, Any]:
    """The status of an emulation: its endpoint, its hosts, the faults in force."""
    state = _running(emulation)
    return {**state.public, **_ask(state, {})}


def fault(emulation: Emulation, kind: str, target: str, value: str = "") -> str:
    """Inject a fault, or lift it with the value 'off'; gives what was done, in words."""
    answer = _ask(_running(emulation), {"fault": {"kind": kind, "target": target, "value": value}})
    if "error" in answer:
        raise (NotFoundError if answer["missing"] else UserError)(answer["error"], answer["hint"])
    return str(answer["done"])


def _check(emulation: Emulation, options: EmulationOptions) -> None:
    if any(letter in str(emulation.folder) for letter in ":, \t\n\\"):
        raise UserError(f"The folder {emulation.folder} cannot hold disks: its name has a colon, a comma or a space.")
    if options.vcpus_per_core < 1:
        raise UserError(f"{options.vcpus_per_core:g} vCPUs a core make machines larger than this computer.")
    if options.network:
        try:
            fits = IPv4Network(options.network).prefixlen == 16
        except ValueError as error:
            raise UserError(f"'{options.network}' is no range of addresses: {error}", "10.80.0.0/16") from error
        if not fits:
            raise UserError(f"{options.network} has not the size /16.", "10.80.0.0/16")


def _take(emulation: Emulation) -> None:
    emulation.folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        emulation.folder.mkdir(mode=0o700)
    except FileExistsError:
        raise UserError(f"Someone else is starting '{emulation.name}' right now.", "Try again in a moment.") from None


def _start(emulation: Emulation, options: EmulationOptions) -> subprocess.Popen[bytes]:
    vcpus = options.vcpus or vcpus_that_fit(len(os.sched_getaffinity(0)), options.vcpus_per_core)
    command = [sys.executable, "-m", MODULE, "--name", emulation.name, "--folder", str(emulation.folder)]
    command += [
        "--region",
        options.region,
        "--vcpus",
        str(vcpus),
        "--vcpus-per-core",
        str(options.vcpus_per_core),
    ]
    command += ["--port", str(options.port), "--network", options.network, "--owner", str(options.owner)]
    for folder in (emulation.folder.parent, *options.private):
        command += ["--private", str(folder)]
    with emulation.log_file.open("ab") as log:
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


def _wait_until_ready(emulation: Emulation, process: subprocess.Popen[bytes]) -> State:
    until = time.monotonic() + _START_S
    while not emulation.state_file.exists():
        if process.poll() is not None or time.monotonic() > until:
            said = emulation.log_file.read_text(errors="replace").strip().splitlines()[-5:]
            remove_emulation(emulation)
            raise CloudError("The emulated EC2 did not start:\n" + "\n".join(said))
        time.sleep(0.05)
    return read_state(emulation)


def _running(emulation: Emulation) -> State:
    state = read_state(emulation)
    if not is_running(emulation):
        hint = f"Clean up with: mlcd emulate down --name {emulation.name}"
        raise NotFoundError(f"The emulated EC2 called '{emulation.name}' was killed.", hint)
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
