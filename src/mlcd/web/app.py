"""The application, put together."""

from __future__ import annotations

import json
import logging
import os
from functools import cache, partial

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute

from mlcd import __version__
from mlcd.settings import read_settings
from mlcd.web import api, faults, monitoring, pages
from mlcd.web.clouds import may_go_on
from mlcd.web.headers import RequestLimits, SecurityHeaders
from mlcd.web.pages.rendering import error_page
from mlcd.web.paths import HiddenPaths, hider
from mlcd.web.settings import from_table
from mlcd.web.site import Site, open_site
from mlcd.web.takeover import lifespan

SETTINGS = "MLCD_SERVE"  # how the settings reach worker processes


def create_app(site: Site) -> FastAPI:
    """The service of this site."""
    app = FastAPI(
        title="mlcd",
        version=__version__,
        summary="Find the right cloud machines for a training job, train there, and hand back the model.",
        openapi_url=f"{api.PREFIX}/openapi.json",
        docs_url=None,  # their scripts come from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.site = site
    site.client.may_revive = partial(may_go_on, site)
    faults.install(app)
    app.router.routes.extend(_routes())
    app.state.error_page = error_page
    app.add_middleware(
        RequestLimits,
        hosts_open=site.serve.accounts or site.serve.insecure,
        upload_bytes=site.serve.upload_bytes,
    )
    if site.serve.accounts or site.serve.insecure:
        app.add_middleware(HiddenPaths, hide=hider(site.client.settings.home))
    app.add_middleware(SecurityHeaders, secure=site.serve.secure)
    return app


@cache
def _routes() -> list[BaseRoute]:
    """All routes, which FastAPI reads from their signatures: a second's work, done once for all apps of a process."""
    router = APIRouter()
    router.include_router(api.routers())
    router.include_router(monitoring.router)
    for page in pages.routers():
        router.include_router(page, include_in_schema=False)
    return router.routes


def from_environment() -> FastAPI:
    """The application in a worker process, which gets its settings through the environment."""
    log_to_stderr()
    return create_app(open_site(read_settings(), from_table(json.loads(os.environ[SETTINGS]))))


def log_to_stderr() -> None:
    """With the time and the level, as a server's log is read."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
