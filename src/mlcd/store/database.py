"""One database, reached safely by threads and processes at once.

SQLite: write-ahead log, so that readers never wait; a write takes the lock at its beginning (BEGIN
IMMEDIATE), so that what it reads is still true when it writes; every commit is on the disk before it is
acknowledged. PostgreSQL: READ COMMITTED, and what is to be changed is locked first (see jobs.lock).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import StaticPool

from mlcd.errors import MissingExtraError, StoreError
from mlcd.store.faults import shown, translated

WAIT_SECONDS = 30  # for a lock, before it is called an error
_EXAMPLES = "Write sqlite:////home/me/mlcd.db or postgresql://user@host/mlcd."


class Database:
    """Transactions on one database."""

    def __init__(self, url: URL, engine: Engine) -> None:
        self.url = url
        self._engine = engine
        self._writer = engine.execution_options(mlcd_writes=True)
        in_memory = isinstance(engine.pool, StaticPool)
        # Threads queue here rather than poll for SQLite's one write lock.
        lock = threading.Lock()
        self._write_turn: AbstractContextManager[Any] = lock if url.get_backend_name() == "sqlite" else nullcontext()
        self._read_turn: AbstractContextManager[Any] = lock if in_memory else nullcontext()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that changes nothing and makes nobody wait."""
        with translated(self.url), self._read_turn, self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is kept as a whole, and for good, once this block is left; or not at all."""
        with translated(self.url), self._write_turn, self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()


def open_database(url: str) -> Database:
    """The database at a URL; the file and its folder are made if need be."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "postgresql":
        return Database(parsed, _postgres(parsed))
    if parsed.database in (None, "", ":memory:"):
        return Database(parsed, _sqlite(parsed, poolclass=StaticPool))
    parsed = parsed.set(database=str(Path(str(parsed.database)).expanduser().absolute()))
    _make_file(parsed)
    return Database(parsed, _sqlite(parsed))


def insert_or_skip(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An insert that passes over rows that are there already."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def _parse(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # The text may hold a password: it is not repeated, nor is the error that repeats it.
        raise StoreError("The address of the database (MLCD_STORE) is not a URL.", _EXAMPLES) from None
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        return url
    raise StoreError(f"mlcd keeps its records in SQLite or PostgreSQL, not in '{url.drivername}'.", _EXAMPLES)


def _make_file(url: URL) -> None:
    """For the user's eyes only. SQLite gives the files that it adds the same permissions."""
    path = Path(str(url.database))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StoreError(
            f"The database {shown(url)} cannot be opened: {error.strerror}.",
            "Check the folder, or name another place in MLCD_HOME or MLCD_STORE.",
        ) from error


def _sqlite(url: URL, **options: Any) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,
        connect_args={"timeout": WAIT_SECONDS, "check_same_thread": False},
        **options,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say, see _begin_sqlite
    _use_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch the file over; SQLite does not wait by itself when two processes do so at once."""
    give_up_at = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
            time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("mlcd_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgres(url: URL) -> Engine:
    try:
        engine = create_engine(
            url,
            hide_parameters=True,
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
            connect_args={} if "connect_timeout" in url.query else {"connect_timeout": 10},
        )
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "PostgreSQL needs the package psycopg, which is not installed.", "pip install 'mlcd[postgres]'"
        ) from error
    event.listen(engine, "connect", _prepare_postgres)
    return engine


def _prepare_postgres(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{WAIT_SECONDS}s'")
    connection.commit()
