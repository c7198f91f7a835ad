"""`mlcd emulate`: an EC2 of your own on this computer, to rehearse on and to break."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlcd.cli import options as given
from mlcd.cli.screen import note, show, show_json
from mlcd.cli.tables import table
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.settings import read_settings

if TYPE_CHECKING:
    from rich.table import Table

    from mlcd_emulate.emulation import Emulation, State

app = typer.Typer(
    help="An EC2 of your own on this Linux computer: the real API, and hosts that boot, compute and break.",
    no_args_is_help=True,
    add_completion=False,
)

Name = Annotated[str, typer.Option(help="Which emulation; several run side by side.")]
Folder = Annotated[Path | None, typer.Option("--dir", help="Where it keeps its files; the home of mlcd by default.")]


@app.command()
def up(
    name: Name = "default",
    folder: Folder = None,
    region: Annotated[str, typer.Option(help="The region that tools use by default.")] = "us-east-1",
    vcpus: Annotated[int, typer.Option(help="The vCPU quota; 0: as much as this computer can bear.", min=0)] = 0,
    vcpus_per_core: Annotated[float, typer.Option(help="The scale: so many vCPUs are one core.")] = 20.0,
    network: Annotated[
        str,
        typer.Option(help="The addresses of the hosts, such as 10.80.0.0/16; one that is free by default."),
    ] = "",
    port: Annotated[int, typer.Option(help="The endpoint's port; one that is free by default.", min=0, max=65535)] = 0,
    owner: Annotated[
        int, typer.Option(metavar="PID", help="End it when this process ends; 0: only with `down`.", min=0)
    ] = 0,
    json: given.JsonFlag = False,
) -> None:
    """Start an emulated EC2, and print what AWS's tools need in their environment to use it.

    It needs root on Linux. What runs already stays as it is. A shell takes the variables in with
    eval "$(mlcd emulate up)".

    Examples:

        mlcd emulate up
        mlcd emulate up --name ci --vcpus 16 --json
    """
    from mlcd_emulate.client import EmulationOptions
    from mlcd_emulate.client import up as start

    settings = read_settings()
    options = EmulationOptions(region, vcpus, vcpus_per_core, network, port, (settings.home,), owner)
    state = start(_emulation(name, folder), options)
    if json:
        show_json({**state.public, "environment": _environment(state)})
    else:
        _show_exports(state)


@app.command()
def down(name: Name = "default", folder: Folder = None, json: given.JsonFlag = False) -> None:
    """End an emulation and remove all that it made, even where its process was killed.

    Examples:

        mlcd emulate down
    """
    from dataclasses import asdict

    from mlcd_emulate.client import down as end

    removed = end(_emulation(name, folder))
    if json:
        show_json({"name": name, "removed": asdict(removed)})
    else:
        show(f"{name} is gone." if any(asdict(removed).values()) else f"Nothing is left of {name}.")


@app.command()
def status(name: Name = "default", folder: Folder = None, json: given.JsonFlag = False) -> None:
    """Show an emulation: its endpoint, its hosts, the faults in force.

    Examples:

        mlcd emulate status
        mlcd emulate status --json
    """
    from mlcd_emulate.client import status as ask

    found = ask(_emulation(name, folder))
    if json:
        show_json(found)
    else:
        show(f"{name}: {found['endpoint']}, quota {found['vcpu_quota']} vCPUs, {found['network']}")
        show(_hosts_table(found["hosts"]) if found["hosts"] else "No host runs.")
        for line in _api_faults(found):
            show(line)


@app.command()
def fault(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="kill, poweroff, cut, slow, loss, fill-disk, spot-notice, no-capacity, throttle or deny.",
            show_default=False,
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A host by instance id or address; for no-capacity c5.large, us-east-1a or c5.large/us-east-1a; "
            "for throttle and deny an action such as RunInstances, or all.",
            show_default=False,
        ),
    ],
    value: Annotated[
        str,
        typer.Argument(
            metavar="[VALUE]",
            help="slow: the divisor (4); loss: per cent (10); spot-notice: seconds (120); throttle: the share of "
            "requests (1); off lifts a fault.",
        ),
    ] = "",
    name: Name = "default",
    folder: Folder = None,
    json: given.JsonFlag = False,
) -> None:
    """Make something fail in an emulation, or lift the fault.

    kill ends the processes that came by ssh, poweroff the whole host; cut takes it off the network, slow divides
    its CPU, loss drops its packets, fill-disk leaves no byte; spot-notice announces that it is taken away, and
    takes it. no-capacity, throttle and deny make the API refuse.

    Examples:

        mlcd emulate fault slow 10.72.0.4 8
        mlcd emulate fault cut i-0a1b2c3d4e5f60718
        mlcd emulate fault cut i-0a1b2c3d4e5f60718 off
        mlcd emulate fault no-capacity c5.large/us-east-1a
    """
    from mlcd_emulate.client import fault as inject

    done = inject(_emulation(name, folder), kind, target, value)
    show_json({"fault": kind, "target": target, "value": value, "done": done}) if json else show(f"{done}.")


def _emulation(name: str, folder: Path | None) -> Emulation:
    from mlcd_emulate.emulation import emulation_named

    return emulation_named(name, folder or read_settings().home / "emulate")


def _show_exports(state: State) -> None:
    """On standard output what a shell can take in, beside it what a person wants to know."""
    for variable, value in _environment(state).items():
        typer.echo(f"export {variable}={shlex.quote(value)}")  # never wrapped
    note(
        f"{state.name} runs at {state.endpoint}: {state.vcpu_quota} vCPUs, {state.vcpus_per_core:g} a core. "
        f"End it with: mlcd emulate down" + ("" if state.name == "default" else f" --name {state.name}")
    )


def _environment(state: State) -> dict[str, str]:
    """What the tools need, with the hosts that this shell reaches without a proxy already.

    mlcd needs the Python with the user's packages: hosts have the files of this computer, and can install nothing.
    """
    direct = [*os.environ.get("NO_PROXY", "").split(","), state.environment["NO_PROXY"]]
    chosen = read_settings().of(Ec2Settings).python
    python = chosen if chosen != Ec2Settings().python else sys.executable
    return {
        **state.environment,
        "NO_PROXY": ",".join(dict.fromkeys(filter(None, direct))),
        "MLCD_EC2_PYTHON": python,
    }


def _hosts_table(hosts: list[dict[str, Any]]) -> Table:
    made = table("host", "address", "type", "zone", "cores", "wrong", right=("cores",))
    for host in hosts:
        wrong = ", ".join(f"{kind} {value}".removesuffix(" on") for kind, value in host["faults"].items())
        kind = f"{host['type']}{' spot' if host['spot'] else ''}"
        made.add_row(host["id"], host["address"], kind, host["zone"], f"{host['cores']:g}", wrong)
    return made


def _api_faults(status: dict[str, Any]) -> list[str]:
    return [
        *(f"{each} is sold out." for each in status["no_capacity"]),
        *(f"{share:.0%} of the requests for {each} are refused." for each, share in status["throttled"].items()),
        *(f"{each} is denied." for each in status["denied"]),
    ]
