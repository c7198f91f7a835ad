"""`predict`: ask a model that a training handed back."""

from __future__ import annotations

import sys
from json import JSONDecodeError, loads
from pathlib import Path
from typing import Annotated, Any

import typer

from mlcd.cli import options as given
from mlcd.cli.screen import show_json
from mlcd.cli.session import get_client
from mlcd.errors import UserError


def predict(
    context: typer.Context,
    job: given.JobId,
    source: Annotated[
        Path,
        typer.Option("--input", "-i", help="A JSON file with the inputs; - reads standard input.", show_default=False),
    ],
    dtype: Annotated[str, typer.Option(help="The data type of the inputs.")] = "float32",
) -> None:
    """Ask the model of a finished job for predictions, and print them as JSON.

    The file holds the inputs, or {"inputs": …} as a server is sent them. The model runs in a process of its
    own, with the limits of the settings.

    Examples:

        mlcd predict digits-3f2a1c --input images.json
    """
    inputs = _read(source)
    show_json({"outputs": get_client(context).predict(job, inputs, dtype=dtype)})


def _read(source: Path) -> Any:
    try:
        data = loads(sys.stdin.read() if str(source) == "-" else source.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{source} cannot be read: {error.strerror}.") from error
    except (JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{source} is not JSON: {error}.", "Write for example [[0.1, 0.2]].") from error
    return data["inputs"] if isinstance(data, dict) and "inputs" in data else data
