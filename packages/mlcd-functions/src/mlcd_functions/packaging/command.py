"""`mlcd package functions`: what the functions at AWS run beside the program, as a layer or an image."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlcd.cli import options as given
from mlcd.cli.screen import note, out, printable, show, show_json
from mlcd.errors import UserError
from mlcd.settings import read_settings
from mlcd_functions.settings import FunctionsSettings

if TYPE_CHECKING:
    from mlcd_functions.packaging.make import Made

app = typer.Typer(
    help="Make what machines elsewhere need beside the program.",
    no_args_is_help=True,
    add_completion=False,
)


class Kind(StrEnum):
    """What is made."""

    AUTO = "auto"
    LAYER = "layer"
    IMAGE = "image"


@app.callback()
def package() -> None:
    """Make what machines elsewhere need beside the program."""


@app.command()
def functions(
    requirements: Annotated[
        Path | None,
        typer.Option("--requirements", "-r", help="What the program imports, as pip reads it; NumPy alone without it."),
    ] = None,
    kind: Annotated[Kind, typer.Option(help="A layer where everything fits one, else an image.")] = Kind.AUTO,
    repository: Annotated[str, typer.Option(help="ECR's address for the image; without it none is sent.")] = "",
    base: Annotated[str, typer.Option(help="The image to build on; AWS's own for functions.runtime by default.")] = "",
    engine: Annotated[str, typer.Option(help="docker, podman or buildah; the first that works by default.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to put it; mlcd's home by default.")
    ] = None,
    push: Annotated[bool, typer.Option(help="Send it to AWS.")] = True,
    json: given.JsonFlag = False,
) -> None:
    """Make a layer or a container image for functions at AWS, with the packages that a program imports.

    Sizes are compared with AWS's limits before anything is sent. Where no container engine works, the folder to build from
    is written, and the commands are printed.

    Examples:

        mlcd package functions -r requirements.txt --no-push
        mlcd package functions -r requirements.txt --repository 123456789012.dkr.ecr.us-east-1.amazonaws.com/mlcd
    """
    if requirements is not None and not requirements.is_file():
        raise UserError(f"There is no file {requirements}.", "Name a requirements.txt.")
    settings = read_settings()
    of_functions = settings.of(FunctionsSettings)
    into = (output or settings.home / "functions" / "package").absolute()
    made = _make(of_functions, kind, requirements, into, (repository, base, engine), push)
    show_json({**asdict(made), "packages": [asdict(each) for each in made.packages]}) if json else _show(made)


def _make(
    settings: FunctionsSettings,
    kind: Kind,
    requirements: Path | None,
    into: Path,
    image: tuple[str, str, str],
    push: bool,
) -> Made:
    from mlcd_functions.packaging.ecr import repository_of
    from mlcd_functions.packaging.engines import find_engine
    from mlcd_functions.packaging.limits import TooLargeError
    from mlcd_functions.packaging.make import Images, Layers

    repository, base, engine = image
    where = repository_of(repository) if repository else None
    if kind is Kind.LAYER or (kind is Kind.AUTO and not repository and not base):
        try:
            return Layers(settings, note).make(requirements, into, push and settings.endpoint == "aws")
        except TooLargeError as error:
            if kind is Kind.LAYER:
                raise
            note(f"{error.message} An image is made.")
    return Images(settings, find_engine(engine), where, note).make(requirements, into, base, push)


def _show(made: Made) -> None:
    show(f"{made.kind.capitalize()} of {len(made.packages)} packages: {made.path}", *made.notes)
    if made.todo:
        show("", "No container engine works here. Where one does:")
        _verbatim(*made.todo)
    if made.setting:
        show("", "Then, in mlcd's settings:" if made.todo else "In mlcd's settings:")
        _verbatim("[functions]", made.setting)
    else:
        show("", f"It is not at AWS. {_TO_SEND[made.kind]}")


_TO_SEND = {
    "layer": "With functions.endpoint = 'aws', and without --no-push, the command publishes it.",
    "image": "With --repository, and without --no-push, the command sends it there.",
}


def _verbatim(*rows: str) -> None:
    """As it is to be copied: never wrapped."""
    for row in rows:
        out().print(printable(f"  {row}"), soft_wrap=True)
