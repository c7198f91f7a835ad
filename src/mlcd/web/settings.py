"""What can be said about a server, and what may not be: a public address without accounts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from mlcd.errors import UserError

GIB = 2**30


@dataclass(frozen=True)
class Oidc:
    """An identity provider that may sign people in; its client secret comes by MLCD_OIDC_CLIENT_SECRET."""

    issuer: str
    client_id: str
    name: str = "single sign-on"
    claim: str = "preferred_username"  # what the account is called
    domains: tuple[str, ...] = ()  # of e-mail addresses that may come in; empty: everyone the issuer knows


@dataclass(frozen=True)
class ServeSettings:
    """How to serve."""

    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    accounts: bool = False
    insecure: bool = False  # reachable from elsewhere without accounts, because the admin insists
    public_url: str = ""  # as people type it, behind a proxy; https there means cookies for https only
    proxies: str = "127.0.0.1"  # whose X-Forwarded-* headers are believed
    # Where jobs may run; empty: anywhere, users' jobs anywhere but on this computer.
    clouds: tuple[str, ...] = ()
    upload_bytes: int = GIB
    unpacked_bytes: int = 4 * GIB
    upload_quota_bytes: int = 20 * GIB  # of one account's uploads together, unpacked
    uploads_per_minute: int = 30  # of one account
    upload_days: float = 7.0  # without use by anyone or any job, before an upload is taken away
    posts_per_minute: int = 120  # of one account
    asks_per_minute: int = 60  # of one account, for what clouds sell: each goes out to the cloud
    # Of one address; of one name from one address, wrong ones wait longer and longer.
    logins_per_minute: int = 10
    watch_seconds: float = 15.0  # between two looks for jobs that nobody drives
    session_days: float = 14.0
    oidc: Oidc | None = None

    @property
    def secure(self) -> bool:
        """Whether people come by https."""
        return self.public_url.startswith("https://")


def wants_accounts(host: str, said: bool | None, insecure: bool, known: int) -> bool:
    """Whether people must sign in: said so, or listening to the world, or accounts are there already.

    Serving the world without accounts is refused unless the caller insists.
    """
    if said is False and not is_loopback(host) and not insecure:
        raise UserError(
            f"Without accounts anyone who reaches {host} can run programs here and spend money.",
            "Leave out --no-accounts, listen on 127.0.0.1, or insist with --insecure.",
        )
    if said is not None:
        return said
    return not is_loopback(host) or known > 0


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def from_table(table: dict[str, Any]) -> ServeSettings:
    """The settings that `asdict` wrote, for the worker processes."""
    oidc = table.pop("oidc", None)
    if oidc is not None:
        oidc = Oidc(**{**oidc, "domains": tuple(oidc["domains"])})
    return ServeSettings(**{**table, "clouds": tuple(table["clouds"]), "oidc": oidc})
