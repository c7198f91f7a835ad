"""The first tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """To this revision."""
    _jobs()
    _tasks()
    _history()
    _curves()


def downgrade() -> None:
    """Back to an empty database."""
    for table in ("metrics", "series", "points", "charges", "events", "attempts", "trials"):
        op.drop_table(table)
    for table in ("tasks", "lives", "controllers", "jobs"):
        op.drop_table(table)


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("ix_jobs_name", "jobs", ["name"])
    op.create_index("ix_jobs_state", "jobs", ["state"])
    op.create_table(
        "controllers",
        _job_id(primary_key=True),
        sa.Column("token", sa.String, nullable=False),
        sa.Column("host", sa.String, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("born_at", sa.Double, nullable=False),
        sa.Column("beat_at", sa.Double, nullable=False),
    )
    op.create_table("lives", _job_id(primary_key=True), sa.Column("doc", sa.Text, nullable=False))


def _tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        _job_id(),
        sa.Column("handle", sa.Text),
        sa.Column("ended_at", sa.Double),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_index("ix_tasks_job_id", "tasks", ["job_id"])
    op.create_index("tasks_open", "tasks", ["ended_at"])
    op.create_table(
        "charges",
        _task(primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("usd", sa.Double, nullable=False),
    )


def _history() -> None:
    op.create_table(
        "trials",
        sa.Column("number", sa.Integer, primary_key=True),
        _job_id(),
        sa.Column("task_id", sa.String),
        sa.Column("doc", sa.Text, nullable=False),
        sa.UniqueConstraint("job_id", "task_id", name="trials_once"),
    )
    op.create_table(
        "attempts",
        _job_id(primary_key=True),
        sa.Column("task_id", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("doc", sa.Text, nullable=False),
    )
    op.create_table(
        "events",
        _job_id(primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("doc", sa.Text, nullable=False),
    )


def _curves() -> None:
    op.create_table(
        "points",
        _task(primary_key=True, autoincrement=False),
        sa.Column("seconds", sa.Double, primary_key=True),
        sa.Column("steps", sa.Double),
        sa.Column("samples", sa.Double),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "series",
        sa.Column("number", sa.Integer, primary_key=True),
        _task(),
        sa.Column("name", sa.String, nullable=False),
        sa.UniqueConstraint("task", "name", name="series_once"),
    )
    op.create_table(
        "metrics",
        sa.Column(
            "series", sa.Integer, sa.ForeignKey("series.number"), primary_key=True, autoincrement=False
        ),
        sa.Column("seconds", sa.Double, primary_key=True),
        sa.Column("step", sa.Double),
        sa.Column("value", sa.Double),
        sqlite_with_rowid=False,
    )


def _job_id(**options: Any) -> sa.Column[str]:
    return sa.Column("job_id", sa.String, sa.ForeignKey("jobs.id"), nullable=False, **options)


def _task(**options: Any) -> sa.Column[int]:
    return sa.Column("task", sa.Integer, sa.ForeignKey("tasks.number"), nullable=False, **options)
