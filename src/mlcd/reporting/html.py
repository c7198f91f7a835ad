"""Small pieces of HTML in which every text is escaped unless it is HTML already."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

# Escape sequences and control characters.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


class Html(str):
    """Text that is HTML; any other text is escaped on its way into a page."""


def text(value: object) -> Html:
    """The value as text of a page; control characters, which no browser shows, are left out."""
    return value if isinstance(value, Html) else Html(escape(_CONTROL.sub("", str(value)), quote=True))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element; attribute names may end in an underscore where Python keeps the word to itself."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{shown}>{join(children)}</{name}>")


def join(pieces: Iterable[object]) -> Html:
    """The pieces one after the other."""
    return Html("".join(text(piece) for piece in pieces))


def table(head: Sequence[str], rows: Sequence[Sequence[object]], numbers: Iterable[int] = ()) -> Html:
    """A table that scrolls sideways where the screen is too narrow; `numbers` are aligned to the right."""
    right = set(numbers)

    def cell(name: str, column: int, value: object) -> Html:
        return tag(name, value, class_="number" if column in right else None)

    header = tag("tr", *(cell("th", column, title) for column, title in enumerate(head)))
    body = [
        tag(
            "tr",
            *(cell("td", column, value) for column, value in enumerate(row)),
            class_=getattr(row, "kind", None),
        )
        for row in rows
    ]
    return tag("div", tag("table", tag("thead", header), tag("tbody", *body)), class_="scroll")


class Row(tuple[object, ...]):
    """A table row with a class of its own, such as 'chosen' or 'total'."""

    kind: str

    def __new__(cls, kind: str, *cells: object) -> Row:
        row = super().__new__(cls, cells)
        row.kind = kind
        return row


def data(identifier: str, value: Any) -> Html:
    """The value as JSON for the page's scripts; nothing in it can end the element."""
    safe = json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return Html(f'<script type="application/json" id="{text(identifier)}">{safe}</script>')
