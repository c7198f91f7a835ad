"""What became of a job, in order: trials, attempts, events, and what was last seen running."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from mlcd.core.live import Live
from mlcd.core.records import Event
from mlcd.core.run import Attempt
from mlcd.core.trial import Trial
from mlcd.store.database import insert_or_skip
from mlcd.store.documents import read, write
from mlcd.store.tables import attempts, events, lives, tasks, trials


def add_trial(connection: Connection, job_id: str, trial: Trial) -> None:
    """Keep a trial; a second one of the same task is passed over."""
    row = {"job_id": job_id, "task_id": trial.task_id or None, "doc": write(trial)}
    connection.execute(insert_or_skip(connection, trials).values(row))


def all_trials(connection: Connection, job_id: str) -> tuple[Trial, ...]:
    """Trials in order."""
    query = select(trials.c.doc).where(trials.c.job_id == job_id).order_by(trials.c.number)
    return tuple(read(Trial, doc) for doc in connection.execute(query).scalars())


def trials_of(connection: Connection, job_ids: Collection[str]) -> dict[str, tuple[Trial, ...]]:
    """Trials in order, of several jobs at once."""
    query = select(trials.c.job_id, trials.c.doc).where(trials.c.job_id.in_(job_ids)).order_by(trials.c.number)
    found: dict[str, list[Trial]] = {job_id: [] for job_id in job_ids}
    for job_id, doc in connection.execute(query):
        found[job_id].append(read(Trial, doc))
    return {job_id: tuple(each) for job_id, each in found.items()}


def put_attempt(connection: Connection, job_id: str, attempt: Attempt) -> None:
    """Keep an attempt of a locked job as it stands now."""
    same = (attempts.c.job_id == job_id) & (attempts.c.task_id == attempt.task_id)
    connection.execute(delete(attempts).where(same))
    row = {"job_id": job_id, "task_id": attempt.task_id, "number": attempt.number, "doc": write(attempt)}
    connection.execute(insert(attempts).values(row))


def all_attempts(connection: Connection, job_id: str) -> tuple[Attempt, ...]:
    """Attempts by number."""
    query = select(attempts.c.doc).where(attempts.c.job_id == job_id).order_by(attempts.c.number)
    return tuple(read(Attempt, doc) for doc in connection.execute(query).scalars())


def add_event(
    connection: Connection,
    job_id: str,
    at: float,
    kind: str,
    message: str,
    data: Mapping[str, Any] | None = None,
) -> Event:
    """Number and keep an event of a locked job: without gaps, so that a follower misses none."""
    last = connection.execute(select(func.max(events.c.number)).where(events.c.job_id == job_id)).scalar()
    event = Event((last or 0) + 1, job_id, at, kind, message, dict(data or {}))
    connection.execute(insert(events).values(job_id=job_id, number=event.number, doc=write(event)))
    return event


def events_after(connection: Connection, job_id: str, after: int = 0, limit: int | None = None) -> list[Event]:
    """Events in order, from the one after that number."""
    query = select(events.c.doc).where(events.c.job_id == job_id, events.c.number > after)
    rows = connection.execute(query.order_by(events.c.number).limit(limit))
    return [read(Event, doc) for doc in rows.scalars()]


def put_live(connection: Connection, job_id: str, live: Live | None) -> None:
    """Keep a task of a locked job as seen just now, and nothing of tasks that are over; None: nothing runs."""
    of_job = delete(lives).where(lives.c.job_id == job_id)
    if live is None:
        connection.execute(of_job)
        return
    over = select(tasks.c.id).where(tasks.c.job_id == job_id, tasks.c.ended_at.is_not(None))
    connection.execute(of_job.where((lives.c.task_id == live.task_id) | lives.c.task_id.in_(over)))
    connection.execute(insert(lives).values(job_id=job_id, task_id=live.task_id, doc=write(live)))


def all_lives(connection: Connection, job_id: str) -> tuple[Live, ...]:
    """All tasks that were seen running when the newest one was, in the order in which they were intended."""
    known = lives.c.task_id == tasks.c.id
    query = select(lives.c.doc).join_from(lives, tasks, known, isouter=True)
    rows = connection.execute(query.where(lives.c.job_id == job_id).order_by(func.coalesce(tasks.c.number, 0)))
    return tuple(read(Live, doc) for doc in rows.scalars())
