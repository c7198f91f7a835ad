"""Who drives a job: one controller at a time, known by its token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

from sqlalchemy import Connection, delete, insert, select, update

from mlcd.core.records import Controller, JobRecord
from mlcd.errors import StoreError
from mlcd.store.tables import controllers


class LostControlError(StoreError):
    """Another controller drives the job now: stop acting on it."""


def take(
    connection: Connection,
    record: JobRecord,
    controller: Controller,
    may_replace: Callable[[Controller], bool],
) -> JobRecord | None:
    """The locked job under its new controller; None if another one is at work."""
    old = record.controller
    if old is not None and old.token != controller.token and not may_replace(old):
        return None
    put(connection, record.id, controller)
    return replace(record, controller=controller)


def put(connection: Connection, job_id: str, controller: Controller | None) -> None:
    """Make this the controller of a locked job."""
    connection.execute(delete(controllers).where(controllers.c.job_id == job_id))
    if controller is not None:
        connection.execute(insert(controllers).values(job_id=job_id, **asdict(controller)))


def current(connection: Connection, job_id: str) -> Controller | None:
    """Who drives the job now."""
    row = connection.execute(select(controllers).where(controllers.c.job_id == job_id)).first()
    if row is None:
        return None
    return Controller(row.token, row.host, row.pid, row.born_at, row.beat_at)


def check(record: JobRecord, token: str | None) -> None:
    """Refuse a token that does not drive this job; None asks for nothing."""
    if token is not None and (record.controller is None or record.controller.token != token):
        raise _lost(record.id)


def beat(connection: Connection, job_id: str, token: str, at: float) -> None:
    """Say that the controller was alive at that moment; LostControlError if it is not in control."""
    mine = (controllers.c.job_id == job_id) & (controllers.c.token == token)
    if connection.execute(update(controllers).where(mine).values(beat_at=at)).rowcount == 0:
        raise _lost(job_id)


def release(connection: Connection, job_id: str, token: str) -> None:
    """Leave the job to whoever wants it; quiet if it was lost already."""
    mine = (controllers.c.job_id == job_id) & (controllers.c.token == token)
    connection.execute(delete(controllers).where(mine))


def _lost(job_id: str) -> LostControlError:
    return LostControlError(
        f"Job '{job_id}' is driven by another controller now.", f"Follow it with `mlcd status {job_id}`."
    )
