"""Bringing a database to the present revision when it is opened, whoever else opens it at that moment.

A new database gets its tables from `tables` and `account_tables`; one that is there is changed by the scripts in migrations/.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from mlcd.errors import StoreError
from mlcd.store.database import Database
from mlcd.store.faults import shown
from mlcd.store.tables import metadata

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0005"  # the newest script in migrations/versions; known here so that opening need not load Alembic
VERSION_TABLE = "mlcd_version"
_BEFORE_RELEASE = ("0001", "0002", "0003")  # whose scripts are gone

_ADVISORY_LOCK = 0x6D6C6364  # "mlcd"
_ALEMBIC = threading.Lock()  # its context is one for the whole process


def upgrade(database: Database) -> None:
    """Run the scripts that this database has not seen, all of them or none."""
    with database.reading() as connection:
        if revision(connection) == HEAD:
            return
    with database.writing() as connection:
        _one_at_a_time(connection)
        if revision(connection) != HEAD:  # somebody else may have been faster
            _run_scripts(database, connection)


def revision(connection: Connection) -> str | None:
    """The last script that was run on this database."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
    return found


def alembic_config(connection: Connection) -> Config:
    """What Alembic needs to run our scripts on an open connection."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "mlcd.store:migrations")
    config.attributes["connection"] = connection
    return config


def _one_at_a_time(connection: Connection) -> None:
    """PostgreSQL would let two processes create the same table; SQLite's writers are alone already."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})


def _run_scripts(database: Database, connection: Connection) -> None:
    from alembic import command
    from alembic.script import ScriptDirectory

    config, present = alembic_config(connection), revision(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if present is not None and present not in known:
        raise _unknown(database, present)
    with _ALEMBIC:
        if present is None:
            metadata.create_all(connection)
            command.stamp(config, "head")
        else:
            command.upgrade(config, "head")


def _unknown(database: Database, present: str) -> StoreError:
    if present in _BEFORE_RELEASE:
        return StoreError(
            f"The database {shown(database.url)} is of an mlcd before 0.2 (revision {present}), which cannot be upgraded.",
            "Open it once with mlcd at commit 12a3bb1, which brings it to revision 0004; or move it away to begin with a new one.",
        )
    return StoreError(
        f"The database {shown(database.url)} was written by a newer mlcd (revision {present}).",
        "Install the newest one: pip install --upgrade mlcd",
    )
