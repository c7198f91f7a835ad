"""HTML pages. A page's router goes into `routers()`; create_app includes them after the API."""

from __future__ import annotations

from fastapi import APIRouter


def routers() -> list[APIRouter]:
    """The routers of all pages."""
    return []
