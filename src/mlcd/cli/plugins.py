"""Commands that other distributions bring, through the entry-point group `mlcd.commands`.

    [project.entry-points."mlcd.commands"]
    bench = "mlcd_bench.entry:app"          # a typer.Typer made with add_completion=False

`mlcd bench` then runs that app. Entry points are read only for `mlcd --help` and for a command that is not built in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Never

import typer
from typer.core import TyperGroup

from mlcd.errors import UserError
from mlcd.registry import not_installed

GROUP = "mlcd.commands"
_PANEL = "Plug-ins"  # of commands that are not of this project
_ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


@dataclass(frozen=True)
class Optional:
    """A command of this project that is in a distribution of its own."""

    panel: str
    help: str
    extra: str = ""  # that installs it; empty: of the same name


OPTIONAL = {
    "emulate": Optional(
        "Machines",
        "An EC2 of your own on this Linux computer: the real API, and hosts that boot, compute and break.",
    ),
    "package": Optional(
        "Machines",
        "Make a layer or a container image for functions at AWS, with the packages that a program imports.",
        "functions",
    ),
    "bench": Optional(
        "Measure",
        "Compare search strategies on recorded deployments; `mlcd bench --help` says more.",
    ),
}


class PluginGroup(TyperGroup):
    """The built-in commands, and those of the plug-ins."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names for `mlcd --help`, built-in commands first."""
        return list(dict.fromkeys([*super().list_commands(ctx), *OPTIONAL, *sorted(_entry_points())]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None where there is none."""
        return super().get_command(ctx, cmd_name) or _plugin_command(cmd_name)


def _plugin_command(name: str) -> Any:
    point = _entry_points().get(name)
    if point is None:
        return _missing(name, OPTIONAL[name]) if name in OPTIONAL else None
    try:
        command: Any = typer.main.get_command(point.load())
    except Exception as error:  # a plug-in that does not load must not take the other commands with it
        return _broken(name, point.value, error)
    command.name = name
    command.rich_help_panel = OPTIONAL[name].panel if name in OPTIONAL else _PANEL
    return command


@cache
def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def _missing(name: str, optional: Optional) -> Any:
    def fail() -> Never:
        raise not_installed(f"`mlcd {name}`", optional.extra or name)

    return _stand_in(name, fail, optional.help, optional.panel)


def _broken(name: str, value: str, error: Exception) -> Any:
    def fail() -> Never:
        raise UserError(
            f"The command '{name}' cannot be loaded from {value}: {error}", "Update or remove its package."
        ) from error

    return _stand_in(name, fail, "This command cannot be loaded; call it to see why.", _PANEL)


def _stand_in(name: str, fail: Callable[[], Never], help_text: str, panel: str) -> Any:
    """A command that takes any arguments and fails."""
    app = typer.Typer(add_completion=False)
    app.command(
        name,
        help=help_text,
        rich_help_panel=panel,
        add_help_option=False,
        context_settings=_ANY_ARGUMENTS,
    )(fail)
    return typer.main.get_command(app)
