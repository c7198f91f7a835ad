"""From options and files to the settings of a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlcd.api import Client
from mlcd.settings import Settings
from mlcd.web.settings import Oidc, ServeSettings, wants_accounts


def serve_settings(
    settings: Settings, *, said: bool | None, oidc: tuple[str, str, tuple[str, ...]], **options: Any
) -> ServeSettings:
    """The settings in force; a public address without accounts is refused unless the caller insists."""
    client = Client(settings)
    try:
        known = client.store.accounts.count()
    finally:
        client.close()
    wanted = ServeSettings(**options)
    accounts = wants_accounts(wanted.host, said, wanted.insecure, known)
    issuer, client_id, domains = oidc
    provider = Oidc(issuer, client_id, domains=domains) if issuer else None
    return replace(wanted, accounts=accounts, oidc=provider)
