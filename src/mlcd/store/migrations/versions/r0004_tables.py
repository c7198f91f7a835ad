"""The tables of mlcd 0.2, which scripts start from: a new database gets its tables from `store.tables` at once."""

from __future__ import annotations

revision = "0004"
down_revision = None


def upgrade() -> None:
    """Nothing to do: a database at this revision has these tables."""
