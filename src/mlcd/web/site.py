"""What every handler has at hand."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass

from mlcd.api import Client
from mlcd.core.accounts import Entry
from mlcd.settings import Settings
from mlcd.store import Accounts, Service, open_store
from mlcd.web.rate_limit import Backoff, RateLimit
from mlcd.web.settings import ServeSettings
from mlcd.web.streams import Hub
from mlcd.web.uploads import Uploads
from mlcd.web.vault import Vault, open_vault


@dataclass(frozen=True)
class Site:
    """One server process."""

    client: Client
    accounts: Accounts
    service: Service
    serve: ServeSettings
    vault: Vault
    uploads: Uploads
    hub: Hub
    posts: RateLimit
    sends: RateLimit  # uploads
    asks: RateLimit  # of what clouds sell
    logins: RateLimit  # by address
    guesses: Backoff  # of passwords, by name and address

    def job(self, owners: Collection[str] | None, reference: str) -> str:
        """The id of the job that is meant, among these owners' jobs; else NotFoundError."""
        return self.client.find(reference, owners).id

    def note(self, account: str, action: str, thing: str, detail: str = "", address: str = "") -> None:
        """Write a line into the audit log."""
        self.service.note(Entry(0, time.time(), account, action, thing, detail, address))

    def close(self) -> None:
        """End the streams and let go of the store; what runs goes on."""
        self.hub.close()
        self.client.close()


def open_site(settings: Settings, serve: ServeSettings) -> Site:
    """The server process of these settings."""
    store = open_store(settings.store_url)
    home = settings.home
    return Site(
        client=Client(settings, store),
        accounts=store.accounts,
        service=store.service,
        serve=serve,
        vault=open_vault(home, os.environ),
        uploads=Uploads(home / "uploads", serve.upload_bytes, serve.unpacked_bytes),
        hub=Hub(),
        posts=RateLimit(serve.posts_per_minute),
        sends=RateLimit(serve.uploads_per_minute),
        asks=RateLimit(serve.asks_per_minute),
        logins=RateLimit(serve.logins_per_minute),
        guesses=Backoff(),
    )
