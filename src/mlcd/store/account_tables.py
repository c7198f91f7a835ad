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

from mlcd.store.tables import key, metadata, numbered, required


def _account(**options: Any) -> Column[str]:
    """Whose it is; the empty name is everyone on a computer without accounts, so nothing is referred to."""
    return Column("account", String, nullable=False, **options)


teams = Table("teams", metadata, key("name"), Column("budget_usd", Double))

accounts = Table(
    "accounts",
    metadata,
    key("name"),
    *required(String, "role"),
    Column("team", String, ForeignKey("teams.name"), nullable=False),
    *required(String, "password"),  # argon2; empty: none
    Column("subject", String, unique=True),  # of the identity provider
    Column("budget_usd", Double),
    *required(Boolean, "disabled"),
    *required(Double, "created_at"),
)

tokens = Table(
    "tokens",
    metadata,
    key("id"),
    _account(index=True),
    *required(String, "label", "digest"),
    *required(Boolean, "session"),
    *required(Double, "created_at"),
    Column("expires_at", Double),
)

vault = Table(
    "vault",
    metadata,
    _account(primary_key=True),
    key("name"),
    *required(Text, "sealed"),
    *required(Double, "at"),
)

uploads = Table(
    "uploads",
    metadata,
    key("id"),
    _account(primary_key=True),
    *required(String, "name"),
    *required(Double, "bytes", "at"),
)

requests = Table(
    "requests",
    metadata,
    _account(primary_key=True),
    key("key"),
    *required(String, "digest"),  # of method, path and body
    *required(String, "reserved"),  # the id of what the request makes, chosen before it is made
    Column("status", Integer),  # NULL: not answered yet
    Column("answer", Text),
    Column("at", Double, nullable=False, index=True),
)

audit = Table(
    "audit",
    metadata,
    numbered(),
    *required(Double, "at"),
    _account(index=True),
    *required(String, "action", "thing"),
    *required(Text, "detail"),
    *required(String, "address"),
)

facts = Table("facts", metadata, key("name"), *required(Text, "value"))
