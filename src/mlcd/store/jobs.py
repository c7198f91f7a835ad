"""Job records: found, listed and changed, each step inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, ScalarSelect, Select, func, select, true, update

import mlcd.store.control as control
import mlcd.store.history as history
import mlcd.store.spending as spending
from mlcd.core.listing import JobLine
from mlcd.core.records import Controller, JobRecord
from mlcd.core.run import JobState
from mlcd.core.trial import Trial
from mlcd.errors import NotFoundError, StoreError, nearest
from mlcd.store.database import insert_or_skip
from mlcd.store.documents import read, write
from mlcd.store.tables import charges, controllers, jobs, tasks, trials

Owners = Collection[str] | None  # None: whoever they are

_SHOWN = 5  # newest jobs named in a hint
_NEAR = 200  # newest jobs that a mistyped name is compared with


def add(connection: Connection, record: JobRecord) -> None:
    """Keep a new job, unless its owner's allowance forbids it."""
    spending.refuse_overspending(connection, None, record)
    row = {"id": record.id, **_columns(record)}
    added = connection.execute(insert_or_skip(connection, jobs).values(row).returning(jobs.c.number))
    if added.first() is None:
        raise StoreError(f"There is a job with the id '{record.id}' already.", "Give the new one another id.")
    control.put(connection, record.id, record.controller)


def find(connection: Connection, reference: str, owners: Owners = None) -> JobRecord:
    """The job with that id, that name (the newest) or the only id that begins so; or NotFoundError.

    Of jobs of other owners nothing is said, not even that they are there.
    """
    theirs = _of(owners)
    row = connection.execute(_records().where(jobs.c.id == reference, theirs)).first()
    row = row or connection.execute(_newest_first().where(jobs.c.name == reference, theirs).limit(1)).first()
    return _record(row or _by_beginning(connection, reference, owners))


def page(
    connection: Connection,
    owners: Owners = None,
    states: Collection[JobState] | None = None,
    words: str = "",
    before: int | None = None,
    limit: int = 50,
) -> list[JobLine]:
    """Jobs submitted before that one, newest first, of these owners and states, that these words are found in."""
    chosen = select(jobs.c.number).where(_of(owners))
    if states is not None:
        chosen = chosen.where(jobs.c.state.in_([state.value for state in states]))
    if words:
        chosen = chosen.where(jobs.c.words.contains(words.casefold(), autoescape=True))
    query = _newest(select(jobs.c.number, jobs.c.doc, _spent()), chosen, before, limit)
    return [_line(number, read(JobRecord, doc), spent) for number, doc, spent in connection.execute(query)]


def newest(
    connection: Connection, states: Collection[JobState] | None = None, limit: int | None = None
) -> list[JobRecord]:
    """Jobs in any of these states, newest first."""
    query = _newest_first().limit(limit)
    if states is not None:
        query = query.where(jobs.c.state.in_([state.value for state in states]))
    return [_record(row) for row in connection.execute(query)]


def tried(
    connection: Connection, limit: int, owners: Owners = None, before: int | None = None
) -> list[tuple[int, JobRecord, tuple[Trial, ...]]]:
    """Jobs submitted before that one of which something was tried, newest first, with numbers and trials."""
    chosen = select(jobs.c.number).where(_of(owners))
    chosen = chosen.where(select(trials.c.number).where(trials.c.job_id == jobs.c.id).exists())
    query = _newest(_records().add_columns(jobs.c.number), chosen, before, limit)
    rows = connection.execute(query).all()
    tries = history.trials_of(connection, [row.id for row in rows])
    return [(row.number, _record(row), tries[row.id]) for row in rows]


def lock(connection: Connection, job_id: str) -> JobRecord:
    """The job, which nobody else changes until this transaction ends.

    Its controller is read by a second statement on purpose: PostgreSQL shows a joined row as it was before
    the wait for the lock.
    """
    query = select(jobs.c.doc).where(jobs.c.id == job_id).with_for_update(key_share=True)
    doc = connection.execute(query).scalar()
    if doc is None:
        raise not_found(connection, job_id)
    return replace(read(JobRecord, doc), controller=control.current(connection, job_id))


def change(connection: Connection, /, job_id: str, token: str | None = None, **changes: Any) -> JobRecord:
    """The job with new facts; LostControlError if the token is not its controller's."""
    old = lock(connection, job_id)
    control.check(old, token)
    new = replace(old, **changes)
    if token is None:
        spending.refuse_overspending(connection, old, new)
    if new.id != old.id:
        raise ValueError("a job keeps its id")
    connection.execute(update(jobs).where(jobs.c.id == job_id).values(_columns(new)))
    if new.controller != old.controller:
        control.put(connection, job_id, new.controller)
    return new


def not_found(connection: Connection, reference: str, owners: Owners = None) -> NotFoundError:
    """The error that names what there is."""
    query = select(jobs.c.id, jobs.c.name).where(_of(owners)).order_by(jobs.c.number.desc())
    recent = list(connection.execute(query.limit(_NEAR)))
    hint = "There are no jobs yet."
    if near := nearest(reference, {word for row in recent for word in (row.id, row.name)}):
        hint = f"Did you mean '{near}'?"
    elif recent:
        hint = f"The newest are: {', '.join(row.id for row in recent[:_SHOWN])}."
    return NotFoundError(f"No job is called '{reference}'.", hint)


def _by_beginning(connection: Connection, reference: str, owners: Owners) -> Row[Any]:
    beginning = func.substr(jobs.c.id, 1, len(reference)) == reference
    query = _newest_first().where(beginning, _of(owners)).limit(_SHOWN)
    rows = connection.execute(query).all() if reference else []
    if len(rows) == 1:
        return rows[0]
    if not rows:
        raise not_found(connection, reference, owners)
    names = ", ".join(row.id for row in rows)
    raise NotFoundError(f"More than one job begins with '{reference}': {names}.", "Write more of the id.")


def _columns(record: JobRecord) -> dict[str, Any]:
    return {
        "name": record.job.name,
        "state": record.state.value,
        "doc": write(replace(record, controller=None)),
        "owner": record.owner,
        "virtual": record.virtual_clock,
        "words": words_of(record.job.name, record.id),
    }


def words_of(name: str, job_id: str) -> str:
    """What a job is found by, in whatever letters it is searched for."""
    return f"{name}\n{job_id}".casefold()


def _of(owners: Owners) -> ColumnElement[bool]:
    return true() if owners is None else jobs.c.owner.in_(sorted(owners))


def _newest(query: Select[Any], chosen: Select[Any], before: int | None, limit: int) -> Select[Any]:
    """The newest of those chosen. They are chosen by an index alone: documents are read of these few only."""
    if before is not None:
        chosen = chosen.where(jobs.c.number < before)
    few = chosen.order_by(jobs.c.number.desc()).limit(limit)
    return query.where(jobs.c.number.in_(few.correlate(None))).order_by(jobs.c.number.desc())


def _spent() -> ScalarSelect[float]:
    bill = select(func.coalesce(func.sum(charges.c.usd), 0.0)).join_from(charges, tasks)
    return bill.where(tasks.c.job_id == jobs.c.id).scalar_subquery()


def _line(number: int, record: JobRecord, spent_usd: float) -> JobLine:
    return JobLine(
        number=number,
        id=record.id,
        name=record.job.name,
        state=record.state,
        owner=record.owner,
        cloud=record.cloud,
        strategy=record.job.search.strategy,
        submitted_at=record.submitted_at,
        ended_at=record.ended_at,
        budget_usd=record.budget_usd,
        deadline_at=record.deadline_at,
        spent_usd=spent_usd,
        confirmed=record.confirmed,
        error=record.error,
        exit_code=record.exit_code,
        deployment=str(record.deployment) if record.plan is not None else "",
    )


def _newest_first() -> Select[Any]:
    return _records().order_by(jobs.c.number.desc())


def _records() -> Select[Any]:
    seen = [column for column in controllers.c if column.name != "job_id"]
    return select(jobs.c.id, jobs.c.doc, *seen).join_from(jobs, controllers, isouter=True)


def _record(row: Row[Any]) -> JobRecord:
    record = read(JobRecord, row.doc)
    if row.token is None:
        return record
    return replace(record, controller=Controller(row.token, row.host, row.pid, row.born_at, row.beat_at))
