"""The application, put together."""

from __future__ import annotations

import json
import logging
import os

from fastapi import FastAPI

from mlcd import __version__
from mlcd.api import Client
from mlcd.web import api, faults, monitoring, pages
from mlcd.web.headers import Doorkeeper, SecurityHeaders
from mlcd.web.settings import from_table
from mlcd.web.site import Site, open_site
from mlcd.web.watching import lifespan

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
    faults.install(app)
    app.include_router(api.routers())
    app.include_router(monitoring.router)
    pages.install(app)
    app.add_middleware(
        Doorkeeper,
        hosts_open=site.serve.accounts or site.serve.insecure,
        upload_bytes=site.serve.upload_bytes,
    )
    app.add_middleware(SecurityHeaders, secure=site.serve.secure)
    return app


def from_environment() -> FastAPI:
    """The application in a worker process, which gets its settings through the environment."""
    log_to_stderr()
    return create_app(open_site(Client(), from_table(json.loads(os.environ[SETTINGS]))))


def log_to_stderr() -> None:
    """With the time and the level, as a server's log is read."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
