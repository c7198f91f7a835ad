"""Accounts and what hangs on them; jobs are found by owner, tasks by the time of their launch."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_TABLES = ("facts", "audit", "requests", "uploads", "vault", "tokens", "accounts", "teams")


def upgrade() -> None:
    """To this revision."""
    _jobs_and_tasks()
    _fill("jobs", lambda doc: {"owner": doc.get("owner", ""), "virtual": doc.get("virtual_clock", False)})
    _fill("tasks", lambda doc: {"intended_at": doc.get("intended_at")})
    _accounts()
    _belongings()
    _records()


def downgrade() -> None:
    """Back to one user."""
    for table in _TABLES:
        op.drop_table(table)
    op.drop_index("tasks_by_time", "tasks")
    op.drop_index("jobs_by_owner", "jobs")
    with op.batch_alter_table("tasks") as tasks:
        tasks.drop_column("intended_at")
    with op.batch_alter_table("jobs") as jobs:
        jobs.drop_column("virtual")
        jobs.drop_column("owner")


def _jobs_and_tasks() -> None:
    op.add_column("jobs", sa.Column("owner", sa.String, nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("virtual", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_index("jobs_by_owner", "jobs", ["owner", "number"])
    op.add_column("tasks", sa.Column("intended_at", sa.Double))
    op.create_index("tasks_by_time", "tasks", ["intended_at"])


def _fill(name: str, columns: Any) -> None:
    """Bring what the documents say into the new columns, a thousand rows at a time."""
    connection = op.get_bind()
    table = sa.table(name, *(sa.column(key) for key in ("number", "doc", "owner", "virtual", "intended_at")))
    last = 0
    while rows := connection.execute(
        sa.select(table.c.number, table.c.doc)
        .where(table.c.number > last)
        .order_by(table.c.number)
        .limit(1000)
    ).all():
        for number, doc in rows:
            values = columns(json.loads(doc))
            connection.execute(sa.update(table).where(table.c.number == number).values(values))
        last = rows[-1].number


def _accounts() -> None:
    op.create_table(
        "teams", sa.Column("name", sa.String, primary_key=True), sa.Column("budget_usd", sa.Double)
    )
    op.create_table(
        "accounts",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("team", sa.String, sa.ForeignKey("teams.name"), nullable=False),
        sa.Column("password", sa.String, nullable=False),
        sa.Column("subject", sa.String, unique=True),
        sa.Column("budget_usd", sa.Double),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String, primary_key=True),
        _account(),
        sa.Column("label", sa.String, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("session", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
    )
    op.create_index("ix_tokens_account", "tokens", ["account"])


def _belongings() -> None:
    op.create_table(
        "vault",
        _account(primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("sealed", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_table(
        "uploads",
        sa.Column("id", sa.String, primary_key=True),
        _account(primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("bytes", sa.Double, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )


def _records() -> None:
    op.create_table(
        "requests",
        _account(primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("reserved", sa.String, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("answer", sa.Text),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_index("ix_requests_at", "requests", ["at"])
    op.create_table(
        "audit",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        _account(),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("thing", sa.String, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("address", sa.String, nullable=False),
    )
    op.create_index("ix_audit_account", "audit", ["account"])
    op.create_table(
        "facts",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )


def _account(**options: Any) -> sa.Column[str]:
    return sa.Column("account", sa.String, nullable=False, **options)
