"""Scripts, styles and the icon: read once, under an address that changes with their content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

router = APIRouter()

KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}


@cache
def _contents() -> dict[str, bytes]:
    folder = files("mlcd.web.pages").joinpath("static")
    return {file.name: file.read_bytes() for file in folder.iterdir() if _kind(file.name)}


def _kind(name: str) -> str:
    return next((kind for ending, kind in KINDS.items() if name.endswith(ending)), "")


VERSION = hashlib.sha256(b"".join(content for _, content in sorted(_contents().items()))).hexdigest()[:12]


def _asset(name: str) -> Callable[[], Response]:
    return lambda: Response(_contents()[name], media_type=_kind(name), headers=_FOREVER)


for _name in _contents():  # browsers keep each until its content changes
    router.add_api_route(f"/static/{VERSION}/{_name}", _asset(_name))


@router.get("/favicon.ico")
def icon() -> Response:
    """The icon, for browsers that do not read the page's head."""
    return Response(_contents()["icon.svg"], media_type=KINDS[".svg"])
