"""Jobs are found by their words, and lists of them are filtered by indexes alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_JOBS = sa.table("jobs", *(sa.column(name) for name in ("number", "id", "name", "words")))
_AT_ONCE = 1000


def upgrade() -> None:
    """To this revision."""
    op.drop_index("jobs_by_owner", "jobs")
    op.drop_index("ix_jobs_state", "jobs")
    op.add_column("jobs", sa.Column("words", sa.String, nullable=False, server_default=""))
    _fill()
    op.create_index("jobs_in_order", "jobs", ["number", "owner", "state", "words"])
    op.create_index("jobs_by_owner", "jobs", ["owner", "number", "state", "words"])
    op.create_index("jobs_by_state", "jobs", ["state", "number", "owner", "words"])


def downgrade() -> None:
    """Back to narrow indexes."""
    for name in ("jobs_in_order", "jobs_by_owner", "jobs_by_state"):
        op.drop_index(name, "jobs")
    op.create_index("ix_jobs_state", "jobs", ["state"])
    op.create_index("jobs_by_owner", "jobs", ["owner", "number"])
    with op.batch_alter_table("jobs") as jobs:
        jobs.drop_column("words")


def _fill() -> None:
    """The words of the jobs that are there, in small letters of any alphabet: databases know the Latin one."""
    connection = op.get_bind()
    query = sa.select(_JOBS.c.number, _JOBS.c.id, _JOBS.c.name).order_by(_JOBS.c.number).limit(_AT_ONCE)
    change = sa.update(_JOBS).where(_JOBS.c.number == sa.bindparam("job")).values(words=sa.bindparam("said"))
    last = 0
    while rows := connection.execute(query.where(_JOBS.c.number > last)).all():
        said = [{"job": row.number, "said": f"{row.name}\n{row.id}".casefold()} for row in rows]
        connection.execute(change, said)
        last = rows[-1].number
