"""The tables. Nouns are JSON documents beside the few columns that are asked for.

    jobs ──┬── controllers   who drives it now: apart, so that a heartbeat does not rewrite the job
           ├── lives         each task that runs now, as last seen
           ├── tasks ──┬── charges
           │           ├── points
           │           └── series ── metrics
           ├── trials
           ├── attempts
           └── events

The tables of accounts are in account_tables.

Order is the order of writing (`number`), not of clocks: a replayed job lives in another time.
A change here needs a new script in migrations/versions; a test compares what it makes of an older database.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

metadata = MetaData()


def required(kind: Any, *names: str) -> Iterator[Column[Any]]:
    """Columns of one kind that every row fills."""
    return (Column(name, kind, nullable=False) for name in names)


def key(name: str, kind: Any = String) -> Column[Any]:
    """A part of a table's key that the writer chooses."""
    return Column(name, kind, primary_key=True, autoincrement=False)


def numbered() -> Column[int]:
    """The key of a table whose rows are counted in the order of writing."""
    return Column("number", Integer, primary_key=True)


def _job_id(**options: Any) -> Column[str]:
    return Column("job_id", String, ForeignKey("jobs.id"), nullable=False, **options)


def _task(**options: Any) -> Column[int]:
    return Column("task", Integer, ForeignKey("tasks.number"), nullable=False, **options)


jobs = Table(
    "jobs",
    metadata,
    numbered(),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False, index=True),
    *required(String, "state"),
    *required(Text, "doc"),  # JobRecord without its controller
    Column("owner", String, nullable=False, server_default=""),
    Column("virtual", Boolean, nullable=False, server_default=false()),  # its money is not real
    Column("words", String, nullable=False, server_default=""),  # what it is found by: see jobs.words_of
    # Each holds all that a list is filtered by, so that no document is read of jobs that are not shown.
    Index("jobs_in_order", "number", "owner", "state", "words"),
    Index("jobs_by_owner", "owner", "number", "state", "words"),
    Index("jobs_by_state", "state", "number", "owner", "words"),
)

controllers = Table(
    "controllers",
    metadata,
    _job_id(primary_key=True),
    *required(String, "token", "host"),
    *required(Integer, "pid"),
    *required(Double, "born_at", "beat_at"),
)

lives = Table("lives", metadata, _job_id(primary_key=True), key("task_id"), *required(Text, "doc"))

tasks = Table(
    "tasks",
    metadata,
    numbered(),
    Column("id", String, nullable=False, unique=True),
    _job_id(index=True),
    Column("handle", Text),
    Column("ended_at", Double),
    *required(Text, "doc"),  # TaskRecord as it was intended
    Column("intended_at", Double),
    Index("tasks_by_time", "intended_at"),
    Index("tasks_open", "ended_at"),
)

trials = Table(
    "trials",
    metadata,
    numbered(),
    _job_id(),
    Column("task_id", String),  # NULL: of no task, such as one taken over from elsewhere
    *required(Text, "doc"),
    UniqueConstraint("job_id", "task_id", name="trials_once"),
)

attempts = Table(
    "attempts",
    metadata,
    _job_id(primary_key=True),
    key("task_id"),
    *required(Integer, "number"),
    *required(Text, "doc"),
)

events = Table("events", metadata, _job_id(primary_key=True), key("number", Integer), *required(Text, "doc"))

charges = Table(
    "charges",
    metadata,
    _task(primary_key=True, autoincrement=False),
    key("position", Integer),
    *required(String, "kind"),
    *required(Text, "what"),
    *required(Double, "seconds", "usd"),
)

# The curves may have millions of rows: numbers only, and in SQLite nothing beside the key's own tree.
points = Table(
    "points",
    metadata,
    _task(primary_key=True, autoincrement=False),
    key("seconds", Double),
    Column("steps", Double),  # NULL stands for NaN, which SQLite cannot keep
    Column("samples", Double),
    sqlite_with_rowid=False,
)

series = Table(
    "series",
    metadata,
    numbered(),
    _task(),
    *required(String, "name"),
    UniqueConstraint("task", "name", name="series_once"),
)

metrics = Table(
    "metrics",
    metadata,
    Column("series", Integer, ForeignKey("series.number"), primary_key=True, autoincrement=False),
    key("seconds", Double),
    Column("step", Double),
    Column("value", Double),
    sqlite_with_rowid=False,
)
