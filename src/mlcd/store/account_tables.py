"""The tables of a server for several people: accounts and what hangs on them.

teams ── accounts ──┬── tokens      API tokens and sessions, hashed
                    ├── vault       secrets, encrypted by the caller
                    ├── uploads     who sent which content
                    └── requests    POSTs by their idempotency key, with the answer given
audit                               who did what, for good
facts                               single values, such as the hash of the setup token
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, Column, Double, ForeignKey, Integer, String, Table, Text

from mlcd.store.tables import metadata


def _account(**options: Any) -> Column[str]:
    """Whose it is; the empty name is everyone on a computer without accounts, so nothing is referred to."""
    return Column("account", String, nullable=False, **options)


teams = Table("teams", metadata, Column("name", String, primary_key=True), Column("budget_usd", Double))

accounts = Table(
    "accounts",
    metadata,
    Column("name", String, primary_key=True),
    Column("role", String, nullable=False),
    Column("team", String, ForeignKey("teams.name"), nullable=False),
    Column("password", String, nullable=False),  # argon2; empty: none
    Column("subject", String, unique=True),  # of the identity provider
    Column("budget_usd", Double),
    Column("disabled", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String, primary_key=True),
    _account(index=True),
    Column("label", String, nullable=False),
    Column("digest", String, nullable=False),
    Column("session", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
)

vault = Table(
    "vault",
    metadata,
    _account(primary_key=True),
    Column("name", String, primary_key=True),
    Column("sealed", Text, nullable=False),
    Column("at", Double, nullable=False),
)

uploads = Table(
    "uploads",
    metadata,
    Column("id", String, primary_key=True),
    _account(primary_key=True),
    Column("name", String, nullable=False),
    Column("bytes", Double, nullable=False),
    Column("at", Double, nullable=False),
)

requests = Table(
    "requests",
    metadata,
    _account(primary_key=True),
    Column("key", String, primary_key=True),
    Column("digest", String, nullable=False),  # of method, path and body
    Column("reserved", String, nullable=False),  # the id of what the request makes, chosen before it is made
    Column("status", Integer),  # NULL: not answered yet
    Column("answer", Text),
    Column("at", Double, nullable=False, index=True),
)

audit = Table(
    "audit",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("at", Double, nullable=False),
    _account(index=True),
    Column("action", String, nullable=False),
    Column("thing", String, nullable=False),
    Column("detail", Text, nullable=False),
    Column("address", String, nullable=False),
)

facts = Table(
    "facts", metadata, Column("name", String, primary_key=True), Column("value", Text, nullable=False)
)
