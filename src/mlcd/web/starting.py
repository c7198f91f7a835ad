"""From options and files to the settings of a server."""

from __future__ import annotations

from typing import Any

from mlcd.api import Client
from mlcd.settings import Settings
from mlcd.web.settings import ServeSettings, wants_accounts


def serve_settings(settings: Settings, *, said: bool | None, **options: Any) -> ServeSettings:
    """The settings in force; a public address without accounts is refused unless the caller insists."""
    client = Client(settings)
    try:
        known = client.store.accounts.count()
    finally:
        client.close()
    wanted = ServeSettings(**options)
    accounts = wants_accounts(wanted.host, said, wanted.insecure, known)
    return ServeSettings(**{**options, "accounts": accounts})
