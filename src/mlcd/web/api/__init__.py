"""/api/v1: every verb of the client."""

from __future__ import annotations

from fastapi import APIRouter

from mlcd.web.api import (
    accounts,
    events,
    jobs,
    machines,
    models,
    people,
    predict,
    secrets,
    sessions,
    sso,
    uploads,
)
from mlcd.web.faults import FaultAnswer

PREFIX = "/api/v1"


def routers() -> APIRouter:
    """All of them under one prefix."""
    faults = {status: {"model": FaultAnswer} for status in (400, 401, 402, 403, 404, 422, 429)}
    api = APIRouter(prefix=PREFIX, responses=faults)  # type: ignore[arg-type]  # a dict is invariant in its keys
    for module in (
        jobs,
        events,
        models,
        predict,
        machines,
        uploads,
        sessions,
        sso,
        accounts,
        people,
        secrets,
    ):
        api.include_router(module.router)
    return api
