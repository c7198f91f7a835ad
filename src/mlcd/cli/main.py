"""The `mlcd` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mlcd import __version__
from mlcd.cli import curves, jobs, machines, predict, service, training
from mlcd.cli.plugins import PluginGroup
from mlcd.cli.screen import show, show_json
from mlcd.cli.session import print_crash, print_error
from mlcd.errors import MlcdError

if TYPE_CHECKING:
    from mlcd.client import ClientProtocol

app = typer.Typer(
    name="mlcd",
    cls=PluginGroup,
    help="Find the right cloud machines for a training job, train there, and get the model with a true bill.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_PANELS = {
    "Train": (training.plan, training.run),
    "Look": (jobs.status, jobs.logs, jobs.report, curves.curves),
    "Steer": (jobs.stop, jobs.resume, jobs.move),
    "Machines": (machines.offers, machines.check, machines.sweep),
    "Share": (service.serve, service.login, service.model, predict.predict),
}
for _panel, _commands in _PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)


def _say_version(wanted: bool) -> None:
    if wanted:
        show(__version__)
        raise typer.Exit


@app.callback()
def everywhere(
    server: Annotated[
        str | None, typer.Option(help="Do it on this mlcd server instead of here.", envvar="MLCD_SERVER")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Say which mlcd this is.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Find the right cloud machines for a training job, train there, and get the model with a true bill."""


@app.command(rich_help_panel="Look")
def version(
    json: Annotated[bool, typer.Option("--json", help="Write JSON and nothing else.")] = False,
) -> None:
    """Say which mlcd this is."""
    if json:
        show_json({"version": __version__})
    else:
        show(__version__)


def main(arguments: Sequence[str] | None = None, client: ClientProtocol | None = None) -> int:
    """Run one command; gives its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    as_json = "--json" in given or "--json-lines" in given
    try:
        app(given, prog_name="mlcd", obj=client)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except MlcdError as error:
        return print_error(error, as_json=as_json)
    except Exception as error:  # the last door: whatever it is, the user gets one line and the trace a file
        return print_crash(error, as_json=as_json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
