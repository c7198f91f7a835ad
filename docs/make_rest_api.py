"""Writes docs/reference/rest-api.md from the server's OpenAPI document: `python docs/make_rest_api.py`.

tests/docs/test_rest_api.py fails where the committed page is another one.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlcd.settings import Settings
from mlcd.web.app import create_app
from mlcd.web.settings import ServeSettings
from mlcd.web.site import open_site

PAGE = Path(__file__).parent / "reference" / "rest-api.md"
HEAD = """\
# REST API

<!-- Made by docs/make_rest_api.py from the OpenAPI document; edit the handlers, not this page. -->

What `mlcd serve` answers to. The whole document, with every field of every answer, is at `/api/v1/openapi.json` of a server.

- **Signing in**: on a server with accounts, send `Authorization: Bearer TOKEN`. Create tokens on the page *Team*, or by
  `POST /api/v1/tokens`. Sessions of browsers also send `X-CSRF-Token` with everything but GET.
- **Lists** come in pages: `next` of one is the `cursor` of the next; `null` ends the list.
- **Idempotency**: a POST with an `Idempotency-Key` takes effect once, however often it is sent; the answer is the same.
- **Errors** are `{"error": {"type", "message", "hint", "exit_code"}}`: 400 and 422 for an invalid request, 401 if
  nobody is signed in, 402 if a monthly budget does not allow it, 403 if the account may not, 404 for what does not exist or belongs to
  somebody else, 409 if it cannot be done now, 413 for too large a request, 424 if a cloud refused, 429 for too many requests, 503
  while the database is away, 507 while the disk is full.
- **Streams** are server-sent events; `Last-Event-ID` continues one.
"""
_COMMON = ("Idempotency-Key", "idempotency-key", "Last-Event-ID")


def make_page() -> str:
    """The whole page."""
    document = openapi()
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).append(section(document, method, path, operation))
    parts = [f"## {name.capitalize()}\n\n" + "\n".join(sections) for name, sections in groups.items()]
    return HEAD + "\n" + "\n".join(parts)


def openapi() -> dict[str, Any]:
    """The document of a server with nothing in it."""
    with tempfile.TemporaryDirectory() as home:
        site = open_site(Settings(home=Path(home)), ServeSettings())
        try:
            return dict(create_app(site).openapi())
        finally:
            site.close()


def section(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> str:
    """What there is to say of one operation."""
    rows = [*parameter_rows(operation), *body_rows(document, operation)]
    table = ["| | | |", "|---|---|---|", *rows] if rows else []
    words = " ".join(operation.get("description", "").split())
    text = [f"### {method.upper()} {path}", words, "\n".join(table), f"Answers {answers(operation)}."]
    return "\n\n".join(part for part in text if part) + "\n"


def parameter_rows(operation: dict[str, Any]) -> Iterator[str]:
    """What goes into the address."""
    for one in operation.get("parameters", []):
        if one["name"] not in _COMMON and one["in"] != "cookie":
            schema = one.get("schema", {})
            yield row(one["name"], f"{one['in']}, {kind(schema)}", meaning(one, schema, one.get("required")))


def body_rows(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[str]:
    """What is sent along."""
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        if media != "application/json" or not name:
            yield row("(body)", media, "")
            continue
        schema = document["components"]["schemas"][name]
        for field, inner in schema.get("properties", {}).items():
            yield row(field, f"body, {kind(inner)}", meaning(inner, inner, field in schema.get("required", [])))


def answers(operation: dict[str, Any]) -> str:
    """The good answer: its status, and what it holds."""
    status, found = next((s, a) for s, a in operation["responses"].items() if s < "400" and s != "422")
    content = found.get("content", {})
    named = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
    others = [media for media in content if media != "application/json"]
    held = f"`{others[0]}`" if others else f"`{named}`" if named else ""
    return f"{status} with {held}" if held else status


def kind(schema: dict[str, Any]) -> str:
    """A type in a word or two."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{each}`" for each in schema.get("enum", [schema.get("const")]))
    choices = [kind(each) for each in schema.get("anyOf", []) if each.get("type") != "null"]
    if choices:
        return " or ".join(dict.fromkeys(choices))
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


def meaning(described: dict[str, Any], schema: dict[str, Any], required: bool | None) -> str:
    """What it means, and what holds where it is left out."""
    words = str(described.get("description", ""))
    if required:
        return f"{words} Required.".strip()
    default = schema.get("default")
    return words if default in (None, "", [], {}) else f"{words} Default: `{default}`.".strip()


def row(name: str, what: str, words: str) -> str:
    """A row of a table."""
    cells = (f"`{name}`" if not name.startswith("(") else name, what, words)
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE} written\n")
