"""What runs now is kept of each task: several probes may run side by side."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """To this revision; what was last seen is seen again within a second."""
    op.drop_table("lives")
    op.create_table(
        "lives",
        _job_id(),
        sa.Column("task_id", sa.String, primary_key=True),
        sa.Column("doc", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Back to one of each job."""
    op.drop_table("lives")
    op.create_table("lives", _job_id(), sa.Column("doc", sa.Text, nullable=False))


def _job_id() -> sa.Column[str]:
    return sa.Column("job_id", sa.String, sa.ForeignKey("jobs.id"), primary_key=True)
