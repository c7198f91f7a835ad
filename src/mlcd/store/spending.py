"""Monthly budgets of accounts and teams, looked at inside the transaction that would commit more money.

What counts against a month: what tasks launched in it have cost, and what jobs at work may still spend.
Replayed jobs cost nothing real and do not count.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Result, Row, func, select

from mlcd.core.accounts import Allowance
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.core.units import show_usd
from mlcd.errors import AllowanceError
from mlcd.store.account_tables import accounts, teams
from mlcd.store.documents import read
from mlcd.store.tables import charges, jobs, tasks

OPEN = (JobState.SEARCHING, JobState.PLANNED, JobState.TRAINING)


def refuse_overspending(connection: Connection, old: JobRecord | None, new: JobRecord) -> None:
    """Raise AllowanceError if the job would commit more than its owner's or their team's month has left."""
    if not new.owner or new.virtual_clock or not _commits_more(old, new):
        return
    account = _lock(connection, new.owner)
    if account is None or (account.budget_usd is None and account.team_usd is None):
        return
    if new.budget_usd is None:
        raise AllowanceError(
            f"{new.owner} has a monthly budget, so job '{new.job.name}' needs a budget of its own.",
            "Add `budget: $10` to the job.",
        )
    needed = new.budget_usd - _spent(connection, new.id)
    for allowance in allowances(connection, new.owner, leave_out=new.id):
        if allowance.left_usd is not None and needed > allowance.left_usd + 1e-9:
            raise _too_much(new, needed, allowance)


def allowances(connection: Connection, name: str, leave_out: str = "") -> tuple[Allowance, ...]:
    """How the budgets stand that an account spends from; of the job left out, only what it has spent counts."""
    account = _account(connection, name)
    if account is None:
        return ()
    members = connection.execute(select(accounts.c.name).where(accounts.c.team == account.team)).scalars().all()
    return (
        _allowance(connection, name, account.budget_usd, [name], leave_out),
        _allowance(connection, f"team {account.team}", account.team_usd, members, leave_out),
    )


def _commits_more(old: JobRecord | None, new: JobRecord) -> bool:
    if old is None or (new.state in OPEN and old.state not in OPEN) or (new.confirmed and not old.confirmed):
        return True
    unlimited = float("inf")
    before, after = (unlimited if each.budget_usd is None else each.budget_usd for each in (old, new))
    return after > before


def _lock(connection: Connection, name: str) -> Row[Any] | None:
    """The account, while nobody else of its team commits money."""
    team = select(accounts.c.team).where(accounts.c.name == name).scalar_subquery()
    connection.execute(select(teams.c.name).where(teams.c.name == team).with_for_update())
    return _account(connection, name)


def _account(connection: Connection, name: str) -> Row[Any] | None:
    query = select(accounts.c.team, accounts.c.budget_usd, teams.c.budget_usd.label("team_usd"))
    rows: Result[Any] = connection.execute(query.join_from(accounts, teams).where(accounts.c.name == name))
    return rows.first()


def _allowance(
    connection: Connection, whose: str, budget: float | None, owners: Collection[str], leave_out: str
) -> Allowance:
    spent = (
        select(func.coalesce(func.sum(charges.c.usd), 0.0))
        .join_from(charges, tasks)
        .join(jobs, jobs.c.id == tasks.c.job_id)
        .where(jobs.c.owner.in_(owners), ~jobs.c.virtual, tasks.c.intended_at >= month_start(time.time()))
    )
    committed = _committed(connection, owners, leave_out)
    return Allowance(whose, budget, float(connection.execute(spent).scalar() or 0.0), committed)


def _committed(connection: Connection, owners: Collection[str], leave_out: str) -> float:
    """What jobs at work may still spend; one without a budget counts with its forecast."""
    query = select(jobs.c.doc).where(
        jobs.c.owner.in_(owners),
        ~jobs.c.virtual,
        jobs.c.state.in_([state.value for state in OPEN]),
        jobs.c.id != leave_out,
    )
    records = [read(JobRecord, doc) for doc in connection.execute(query).scalars()]
    return sum(max(0.0, _expected(record) - _spent(connection, record.id)) for record in records)


def _expected(record: JobRecord) -> float:
    if record.budget_usd is not None:
        return record.budget_usd
    return record.plan.total.usd if record.plan is not None else 0.0


def _spent(connection: Connection, job_id: str) -> float:
    query = select(func.sum(charges.c.usd)).join_from(charges, tasks).where(tasks.c.job_id == job_id)
    return float(connection.execute(query).scalar() or 0.0)


def month_start(now: float) -> float:
    """The beginning of the month, in UTC."""
    moment = datetime.fromtimestamp(now, UTC)
    return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()


def _too_much(new: JobRecord, needed: float, allowance: Allowance) -> AllowanceError:
    return AllowanceError(
        f"Job '{new.job.name}' may spend {show_usd(needed)}, but of the {show_usd(allowance.budget_usd or 0)} a month of "
        f"{allowance.whose} only {show_usd(allowance.left_usd or 0)} are left.",
        f"{show_usd(allowance.spent_usd)} are spent and {show_usd(allowance.committed_usd)} held for jobs at work; "
        "give the job a smaller budget, end another one, or ask an admin for more.",
    )
