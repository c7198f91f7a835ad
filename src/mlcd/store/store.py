"""The store: every verb is one transaction, kept as a whole once it returns, and safe to call from any thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

import mlcd.store.control as control
import mlcd.store.curves as curves
import mlcd.store.history as history
import mlcd.store.jobs as job_rows
import mlcd.store.tasks as task_rows
from mlcd.core.live import Live
from mlcd.core.progress import MetricPoint, Point
from mlcd.core.records import Controller, Event, JobRecord, TaskRecord
from mlcd.core.task import Charge, TaskKind
from mlcd.core.trial import Trial
from mlcd.store.accounts import Accounts
from mlcd.store.database import Database, open_database
from mlcd.store.migrate import upgrade
from mlcd.store.service import Service

P = ParamSpec("P")
R = TypeVar("R")


def open_store(url: str) -> Store:
    """The store at a database URL, made or brought up to date if need be."""
    with ExitStack() as undo:
        database = undo.enter_context(closing(open_database(url)))
        upgrade(database)
        undo.pop_all()
    return Store(database)


def _reading(step: Callable[Concatenate[Connection, P], R]) -> Callable[Concatenate[Store, P], R]:
    """A verb of one step that changes nothing."""

    @wraps(step)
    def verb(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with store._database.reading() as connection:
            return step(connection, *args, **kwargs)

    return verb


def _writing(step: Callable[Concatenate[Connection, P], R]) -> Callable[Concatenate[Store, P], R]:
    """A verb of one step that changes something."""

    @wraps(step)
    def verb(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with store._database.writing() as connection:
            return step(connection, *args, **kwargs)

    return verb


def _locking(
    step: Callable[Concatenate[Connection, str, P], R],
) -> Callable[Concatenate[Store, str, P], R]:
    """A verb of one step that changes what belongs to a job, which is locked first."""

    @wraps(step)
    def verb(store: Store, job_id: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with store._database.writing() as connection:
            job_rows.lock(connection, job_id)
            return step(connection, job_id, *args, **kwargs)

    return verb


class Store:
    """Jobs and all that is known of them. Raises StoreError where the database cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.accounts = Accounts(database)
        self.service = Service(database)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    # Jobs

    add_job = _writing(job_rows.add)
    job = _reading(job_rows.find)
    job_lines = _reading(job_rows.page)
    jobs = _reading(job_rows.newest)
    change_job = _writing(job_rows.change)
    lessons = _reading(job_rows.tried)

    # Control

    def take_control(
        self, job_id: str, controller: Controller, may_replace: Callable[[Controller], bool]
    ) -> JobRecord | None:
        """The job, driven by this controller from now on; None if another one is at work.

        `may_replace` decides about the old controller while the job is locked: it must not call the store.
        """
        with self._database.writing() as connection:
            return control.take(connection, job_rows.lock(connection, job_id), controller, may_replace)

    beat = _writing(control.beat)
    release = _writing(control.release)

    # Tasks and money

    def add_task(self, record: TaskRecord, token: str | None = None) -> None:
        """Keep the intent to launch; LostControlError if the token is not the controller's."""
        with self._database.writing() as connection:
            control.check(job_rows.lock(connection, record.job_id), token)
            task_rows.add(connection, record)

    set_handle = _writing(task_rows.set_handle)
    end_task = _writing(task_rows.end)
    task = _reading(task_rows.find)
    tasks = _reading(task_rows.in_order)
    put_charges = _locking(task_rows.put_charges)
    bill = _reading(task_rows.bill)
    spent = _reading(task_rows.spent)

    def finish_probe(
        self, job_id: str, trial: Trial, kind: TaskKind, charges: Sequence[Charge], ended_at: float
    ) -> None:
        """Trial, bill and end of its task in one transaction: all or nothing."""
        with self._database.writing() as connection:
            job_rows.lock(connection, job_id)
            history.add_trial(connection, job_id, trial)
            task_rows.put_charges(connection, job_id, trial.task_id, kind, charges)
            task_rows.end(connection, trial.task_id, ended_at)

    # What became of a job

    add_trial = _locking(history.add_trial)
    trials = _reading(history.all_trials)
    put_attempt = _locking(history.put_attempt)
    attempts = _reading(history.all_attempts)
    add_event = _locking(history.add_event)
    events = _reading(history.events_after)

    def add_event_once(self, job_id: str, at: float, kind: str, message: str, data: Mapping[str, Any]) -> Event | None:
        """Keep an event unless one of that kind and with these data is there; None: it is.

        `at` is on the wall's clock; in a job that lives by another, it is the moment of its newest event.
        """
        with self._database.writing() as connection:
            record = job_rows.lock(connection, job_id)
            known = history.events_after(connection, job_id)
            if any(event.kind == kind and event.data == dict(data) for event in known):
                return None
            if record.virtual_clock:
                at = known[-1].at if known else record.submitted_at
            return history.add_event(connection, job_id, at, kind, message, data)

    put_live = _locking(history.put_live)
    lives = _reading(history.all_lives)

    def live(self, job_id: str) -> Live | None:
        """The newest task that was seen running."""
        return next(reversed(self.lives(job_id)), None)

    # Training curves

    def add_points(
        self, job_id: str, task_id: str, points: Sequence[Point], metrics: Sequence[MetricPoint] = ()
    ) -> None:
        """Append to a task's curves; what was sent before is passed over."""
        with self._database.writing() as connection:
            task = task_rows.number_of(connection, job_id, task_id)
            curves.add_points(connection, task, points)
            curves.add_metrics(connection, task, metrics)

    points = _reading(curves.all_points)
    metrics = _reading(curves.all_metrics)
