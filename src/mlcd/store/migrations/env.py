"""Run by Alembic: applies the scripts on the connection, and in the transaction, that the caller opened."""

from __future__ import annotations

from alembic import context

from mlcd.store.migrate import VERSION_TABLE
from mlcd.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite alters a table by copying it
)
with context.begin_transaction():
    context.run_migrations()
