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
A change here needs a new script in migrations/versions; a test compares the two.
"""

from __future__ import annotations

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


def _job_id(**options: Any) -> Column[str]:
    return Column("job_id", String, ForeignKey("jobs.id"), nullable=False, **options)


jobs = Table(
    "jobs",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False, index=True),
    Column("state", String, nullable=False),
    Column("doc", Text, nullable=False),  # JobRecord without its controller
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
    Column("token", String, nullable=False),
    Column("host", String, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("born_at", Double, nullable=False),
    Column("beat_at", Double, nullable=False),
)

lives = Table(
    "lives",
    metadata,
    _job_id(primary_key=True),
    Column("task_id", String, primary_key=True),
    Column("doc", Text, nullable=False),
)

tasks = Table(
    "tasks",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    _job_id(index=True),
    Column("handle", Text),
    Column("ended_at", Double),
    Column("doc", Text, nullable=False),  # TaskRecord as it was intended
    Column("intended_at", Double),
    Index("tasks_by_time", "intended_at"),
)

trials = Table(
    "trials",
    metadata,
    Column("number", Integer, primary_key=True),
    _job_id(),
    Column("task_id", String),  # NULL: of no task, such as one taken over from elsewhere
    Column("doc", Text, nullable=False),
    UniqueConstraint("job_id", "task_id", name="trials_once"),
)

attempts = Table(
    "attempts",
    metadata,
    _job_id(primary_key=True),
    Column("task_id", String, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("doc", Text, nullable=False),
)

events = Table(
    "events",
    metadata,
    _job_id(primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("doc", Text, nullable=False),
)


def _task(**options: Any) -> Column[int]:
    return Column("task", Integer, ForeignKey("tasks.number"), nullable=False, **options)


charges = Table(
    "charges",
    metadata,
    _task(primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("kind", String, nullable=False),
    Column("what", Text, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("usd", Double, nullable=False),
)

# The curves may have millions of rows: numbers only, and in SQLite nothing beside the key's own tree.
points = Table(
    "points",
    metadata,
    _task(primary_key=True, autoincrement=False),
    Column("seconds", Double, primary_key=True),
    Column("steps", Double),  # NULL stands for NaN, which SQLite cannot keep
    Column("samples", Double),
    sqlite_with_rowid=False,
)

series = Table(
    "series",
    metadata,
    Column("number", Integer, primary_key=True),
    _task(),
    Column("name", String, nullable=False),
    UniqueConstraint("task", "name", name="series_once"),
)

metrics = Table(
    "metrics",
    metadata,
    Column("series", Integer, ForeignKey("series.number"), primary_key=True, autoincrement=False),
    Column("seconds", Double, primary_key=True),
    Column("step", Double),
    Column("value", Double),
    sqlite_with_rowid=False,
)

Index("tasks_open", tasks.c.ended_at)
