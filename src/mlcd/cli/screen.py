"""Where the commands write: people read words on a terminal or plain lines elsewhere, programs read JSON."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterable
from math import isfinite
from typing import Any, TextIO, cast

from rich.console import Console, RenderableType
from rich.text import Text

PLAIN_WIDTH = 80
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")

_BLANKS = re.compile(r" +$", re.MULTILINE)


def out() -> Console:
    """Standard output; 80 columns wide where it is not a terminal."""
    return _console(stderr=False)


def err() -> Console:
    """Standard error, likewise."""
    return _console(stderr=True)


def interactive() -> bool:
    """Whether someone sits there who can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def show(*things: RenderableType) -> None:
    """Write for people; a string is text, never markup."""
    console = out()
    for thing in things:
        console.print(printable(thing) if isinstance(thing, str) else thing)


def note(message: str, style: str = "") -> None:
    """Write beside the output proper."""
    err().print(printable(message, style))


def show_json(noun: Any) -> None:
    """Write one JSON document, the noun's fields as keys."""
    sys.stdout.write(json.dumps(plain_data(noun), indent=2, allow_nan=False) + "\n")


def show_json_line(noun: Any) -> None:
    """Write JSON on a line of its own, at once."""
    sys.stdout.write(json.dumps(plain_data(noun), allow_nan=False) + "\n")
    sys.stdout.flush()


def plain_data(noun: Any) -> Any:
    """The noun, or a list or dictionary of nouns, as JSON knows it; what is no number becomes null."""
    from mlcd.core.serial import to_data

    if isinstance(noun, list | tuple):
        return [plain_data(one) for one in noun]
    if isinstance(noun, dict):
        return {key: plain_data(value) for key, value in noun.items()}
    return _finite(noun if noun is None or isinstance(noun, str | int | float) else to_data(noun))


def printable(message: str, style: str = "") -> Text:
    """Text from anywhere, without the control characters that would steer the terminal."""
    return Text(_CONTROL.sub("", message), style=style)


def lines(*pairs: tuple[str, RenderableType | str]) -> Iterable[RenderableType]:
    """Names with their values, one beneath the other; empty values are left out."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value:
            grid.add_row(name, printable(value) if isinstance(value, str) else value)
    yield grid


class _Trimmed(io.TextIOBase):
    """A stream without the blanks with which tables fill their lines to the right."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a plain attribute there
        """What the stream can write decides which characters tables are drawn with."""
        return self._stream.encoding

    def write(self, text: str) -> int:
        """Write whole lines, as consoles do."""
        return self._stream.write(_BLANKS.sub("", text))

    def flush(self) -> None:
        """At once."""
        self._stream.flush()


def _console(stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(stderr=stderr, highlight=False, soft_wrap=False)
    return Console(file=cast(TextIO, _Trimmed(stream)), width=PLAIN_WIDTH, highlight=False, soft_wrap=False)


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if isfinite(data) else None
    if isinstance(data, list):
        return [_finite(one) for one in data]
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    return data
