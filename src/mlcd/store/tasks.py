"""Tasks, written before they can cost anything, and what they did cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update

from mlcd.core.records import BillItem, TaskRecord
from mlcd.core.task import Charge, TaskKind
from mlcd.errors import NotFoundError, StoreError, did_you_mean
from mlcd.store.database import insert_or_skip
from mlcd.store.documents import read, sound, write
from mlcd.store.tables import charges, tasks

_UNUSED = "kept ready and not used"  # what a task has paid in advance and the next one did not need


def add(connection: Connection, record: TaskRecord) -> None:
    """Keep the intent to launch."""
    row = {
        "id": record.id,
        "job_id": record.job_id,
        "handle": record.handle,
        "ended_at": record.ended_at,
        "doc": write(record),
        "intended_at": record.intended_at,
    }
    added = connection.execute(insert_or_skip(connection, tasks).values(row).returning(tasks.c.number))
    if added.first() is None:
        raise StoreError(f"There is a task with the id '{record.id}' already.", "Give the new one another id.")


def set_handle(connection: Connection, task_id: str, handle: str) -> None:
    """Keep what the cloud answered."""
    changed = connection.execute(update(tasks).where(tasks.c.id == task_id).values(handle=handle))
    if changed.rowcount == 0:
        raise _not_found(connection, task_id)


def end(connection: Connection, task_id: str, ended_at: float) -> None:
    """Nothing of it runs any more. The first end said is the one kept."""
    first = func.coalesce(tasks.c.ended_at, ended_at)
    changed = connection.execute(update(tasks).where(tasks.c.id == task_id).values(ended_at=first))
    if changed.rowcount == 0:
        raise _not_found(connection, task_id)


def find(connection: Connection, task_id: str) -> TaskRecord:
    """One task; or NotFoundError."""
    row = connection.execute(_records().where(tasks.c.id == task_id)).first()
    if row is None:
        raise _not_found(connection, task_id)
    return _record(row)


def in_order(connection: Connection, job_id: str | None = None, open_only: bool = False) -> list[TaskRecord]:
    """Tasks in the order they were intended, of one job or of all; those that may still run, if asked."""
    query = _records().order_by(tasks.c.number)
    if job_id is not None:
        query = query.where(tasks.c.job_id == job_id)
    if open_only:
        query = query.where(tasks.c.ended_at.is_(None))
    return [_record(row) for row in connection.execute(query)]


def number_of(connection: Connection, job_id: str, task_id: str) -> int:
    """What the task is called inside the database."""
    query = select(tasks.c.number).where(tasks.c.id == task_id, tasks.c.job_id == job_id)
    number: int | None = connection.execute(query).scalar()
    if number is None:
        raise _not_found(connection, task_id)
    return number


def put_charges(connection: Connection, job_id: str, task_id: str, kind: TaskKind, lines: Sequence[Charge]) -> None:
    """Make these the lines of a task on its locked job's bill.

    A task on machines that an earlier one has paid in advance may use less than was paid. What is left over is taken
    off the earlier task, so that each costs nothing or more and their sum is the bill.
    """
    task = number_of(connection, job_id, task_id)
    ours = select(tasks.c.number).where(tasks.c.job_id == job_id)
    unused = f"{_UNUSED} by {task_id}"
    connection.execute(delete(charges).where(charges.c.task.in_(ours), charges.c.what == unused))
    connection.execute(delete(charges).where(charges.c.task == task))
    left = max(0.0, -math.fsum(line.usd for line in lines))
    given = _take_off(connection, ours.where(tasks.c.number < task), left, unused) if left > 0.0 else 0.0
    back = [Charge("paid while kept ready, not used", 0.0, given)] if given > 0.0 else []
    _insert(connection, task, kind, [*lines, *back])


def _take_off(connection: Connection, earlier: Select[Any], usd: float, what: str) -> float:
    """Take so much off earlier tasks, the newest first and each to nothing at most; gives what could be taken."""
    total = func.sum(charges.c.usd)
    paid = select(charges.c.task, func.min(charges.c.kind), func.max(charges.c.position), total)
    rows = connection.execute(
        paid.where(charges.c.task.in_(earlier)).group_by(charges.c.task).order_by(charges.c.task.desc())
    ).all()
    left = usd
    for task, kind, last, spent_usd in rows:
        part = min(left, max(0.0, spent_usd))
        if part > 0.0:
            _insert(connection, task, TaskKind(kind), [Charge(what, 0.0, -part)], last + 1)
            left -= part
    return usd - left


def _insert(connection: Connection, task: int, kind: TaskKind, lines: Sequence[Charge], first: int = 0) -> None:
    rows = [
        {
            "task": task,
            "position": position,
            "kind": kind.value,
            "what": sound(line.what),
            "seconds": line.seconds,
            "usd": line.usd,
        }
        for position, line in enumerate(lines, first)
    ]
    if rows:
        connection.execute(insert(charges), rows)


def bill(connection: Connection, job_id: str) -> tuple[BillItem, ...]:
    """All lines, task by task."""
    columns = (tasks.c.id, charges.c.kind, charges.c.what, charges.c.seconds, charges.c.usd)
    query = select(*columns).join_from(charges, tasks).where(tasks.c.job_id == job_id)
    rows = connection.execute(query.order_by(charges.c.task, charges.c.position))
    return tuple(BillItem(id_, TaskKind(kind), what, seconds, usd) for id_, kind, what, seconds, usd in rows)


def spent(connection: Connection, job_id: str) -> float:
    """The sum of the bill, to the last bit whatever the order of its lines."""
    query = select(charges.c.usd).join_from(charges, tasks).where(tasks.c.job_id == job_id)
    return math.fsum(connection.execute(query).scalars())


def _records() -> Select[Any]:
    return select(tasks.c.doc, tasks.c.handle, tasks.c.ended_at)


def _record(row: Row[Any]) -> TaskRecord:
    return replace(read(TaskRecord, row.doc), handle=row.handle, ended_at=row.ended_at)


def _not_found(connection: Connection, task_id: str) -> NotFoundError:
    newest = connection.execute(select(tasks.c.id).order_by(tasks.c.number.desc()).limit(20)).scalars()
    return NotFoundError(f"No task has the id '{task_id}'.", did_you_mean(task_id, newest))
