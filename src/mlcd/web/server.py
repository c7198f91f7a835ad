"""`mlcd serve`: one process by default, several by settings; ends gracefully, and no training with it."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

import uvicorn

from mlcd import registry
from mlcd.errors import UserError
from mlcd.settings import Settings
from mlcd.store import open_store
from mlcd.web.app import SETTINGS, create_app, log_to_stderr
from mlcd.web.clouds import WARNING, is_barred, runs_here
from mlcd.web.passwords import digest
from mlcd.web.settings import Oidc, ServeSettings, wants_accounts
from mlcd.web.site import open_site

GRACE_SECONDS = 10
START_SECONDS = 120  # a worker that has not answered by then is replaced; a busy computer starts one slowly


def serve_settings(
    settings: Settings, *, said: bool | None, oidc: tuple[str, str, tuple[str, ...]], **options: Any
) -> ServeSettings:
    """The settings in force; a public address without accounts is refused unless the caller insists."""
    with closing(open_store(settings.store_url)) as store:
        known = store.accounts.count()
    wanted = ServeSettings(**options)
    accounts = wants_accounts(wanted.host, said, wanted.insecure, known)
    issuer, client_id, domains = oidc
    provider = Oidc(issuer, client_id, domains=domains) if issuer else None
    return replace(wanted, accounts=accounts, oidc=provider)


def serve(settings: Settings, wanted: ServeSettings, say: Callable[[str], None]) -> None:
    """Serve until asked to end."""
    _refuse_taken_port(wanted)
    setup = _offer_setup(settings) if wanted.accounts else None
    for line in [*_welcome(wanted, setup), *_who_runs_here(settings, wanted)]:
        say(line)
    log_to_stderr()
    if wanted.workers > 1:
        _serve_with_workers(settings, wanted)
    else:
        app = create_app(open_site(settings, wanted))
        uvicorn.Server(uvicorn.Config(app, **_options(wanted))).run()


def _serve_with_workers(settings: Settings, wanted: ServeSettings) -> None:
    os.environ[SETTINGS] = json.dumps(asdict(wanted))
    os.environ["MLCD_HOME"] = str(settings.home)
    os.environ["MLCD_STORE"] = settings.store_url
    uvicorn.run("mlcd.web.app:from_environment", factory=True, workers=wanted.workers, **_options(wanted))


def _options(wanted: ServeSettings) -> dict[str, Any]:
    return {
        "host": wanted.host,
        "port": wanted.port,
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "proxy_headers": True,
        "forwarded_allow_ips": wanted.proxies,
        "timeout_graceful_shutdown": GRACE_SECONDS,
        "timeout_worker_healthcheck": START_SECONDS,
    }


def _offer_setup(settings: Settings) -> str | None:
    """A token for the first account, or None if there are accounts already."""
    with closing(open_store(settings.store_url)) as store:
        if store.accounts.count():
            return None
        token = secrets.token_urlsafe(24)
        store.accounts.offer_setup(digest(token))
        return token


def _welcome(wanted: ServeSettings, setup: str | None) -> list[str]:
    url = wanted.public_url or f"http://{wanted.host}:{wanted.port}"
    lines = [f"mlcd listens on {url}"]
    if wanted.insecure and not wanted.accounts:
        lines.append("Anyone who reaches this address can run programs here and spend money.")
    if setup is not None:
        lines.append(f"There are no accounts yet. Make the first one, an admin's, at {url}/setup with this token:")
        lines.append(setup)
    return lines


def _who_runs_here(settings: Settings, wanted: ServeSettings) -> list[str]:
    """Whether users' programs may run on this very computer: said at each start."""
    if not wanted.accounts:
        return []
    open_to_all = [name for name in wanted.clouds if runs_here(settings, name)]
    if open_to_all:
        options = " ".join(f"--cloud {name}" for name in open_to_all)
        return [f"Warning: {options} lets every user run programs on this computer: each {WARNING}."]
    barred = [name for name in registry.names("clouds") if is_barred(settings, wanted, name)]
    return [f"Only admins may run programs on this computer itself (cloud {', '.join(barred)})."]


def _refuse_taken_port(wanted: ServeSettings) -> None:
    family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((wanted.host, wanted.port))
        except OSError as error:
            raise UserError(
                f"The server cannot listen on {wanted.host}:{wanted.port}: {error.strerror}.",
                "Take another port with --port.",
            ) from error
