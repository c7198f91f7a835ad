"""The store: every verb is one transaction, kept as a whole once it returns, and safe to call from any thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

import mlcd.store.control as control
import mlcd.store.curves as curves
import mlcd.store.history as history
import mlcd.store.jobs as jobs
import mlcd.store.tasks as tasks
from mlcd.core.listing import JobLine
from mlcd.core.live import Live
from mlcd.core.progress import MetricPoint, Point
from mlcd.core.records import BillItem, Controller, Event, JobRecord, TaskRecord
from mlcd.core.run import Attempt, JobState
from mlcd.core.task import Charge, TaskKind
from mlcd.core.trial import Trial
from mlcd.store.accounts import Accounts
from mlcd.store.database import Database, open_database
from mlcd.store.migrate import upgrade
from mlcd.store.service import Service


def open_store(url: str) -> Store:
    """The store at a database URL, made or brought up to date if need be."""
    with ExitStack() as undo:
        database = undo.enter_context(closing(open_database(url)))
        upgrade(database)
        undo.pop_all()
    return Store(database)


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

    def add_job(self, record: JobRecord) -> None:
        """Keep a new job."""
        with self._database.writing() as connection:
            jobs.add(connection, record)

    def job(self, job_id: str, owners: Collection[str] | None = None) -> JobRecord:
        """The job with that id, that name (the newest) or the only id that begins so; or NotFoundError."""
        with self._database.reading() as connection:
            return jobs.find(connection, job_id, owners)

    def job_lines(
        self,
        owners: Collection[str] | None = None,
        states: Collection[JobState] | None = None,
        words: str = "",
        before: int | None = None,
        limit: int = 50,
    ) -> list[JobLine]:
        """Jobs submitted before that number, newest first, in a line each."""
        with self._database.reading() as connection:
            return jobs.page(connection, owners, states, words, before, limit)

    def jobs(self, states: Collection[JobState] | None = None, limit: int | None = None) -> list[JobRecord]:
        """Jobs in any of these states, newest first."""
        with self._database.reading() as connection:
            return jobs.newest(connection, states, limit)

    def change_job(self, job_id: str, token: str | None = None, **changes: Any) -> JobRecord:
        """The job with new facts; LostControlError if the token is not its controller's."""
        with self._database.writing() as connection:
            return jobs.change(connection, job_id, token, changes)

    def past_trials(
        self, limit: int, owners: Collection[str] | None = None
    ) -> list[tuple[JobRecord, tuple[Trial, ...]]]:
        """Jobs of which something was tried, newest first, with their trials."""
        with self._database.reading() as connection:
            found = jobs.tried(connection, limit, owners)
            trials = history.trials_of(connection, [record.id for _, record in found])
            return [(record, trials[record.id]) for _, record in found]

    def lessons(
        self, limit: int, owners: Collection[str] | None = None, before: int | None = None
    ) -> list[tuple[int, JobRecord, tuple[Trial, ...]]]:
        """The same of jobs submitted before that number, each with its number."""
        with self._database.reading() as connection:
            found = jobs.tried(connection, limit, owners, before)
            trials = history.trials_of(connection, [record.id for _, record in found])
            return [(number, record, trials[record.id]) for number, record in found]

    # Control

    def take_control(
        self, job_id: str, controller: Controller, may_replace: Callable[[Controller], bool]
    ) -> JobRecord | None:
        """The job, driven by this controller from now on; None if another one is at work.

        `may_replace` decides about the old controller while the job is locked: it must not call the store.
        """
        with self._database.writing() as connection:
            return control.take(connection, jobs.lock(connection, job_id), controller, may_replace)

    def beat(self, job_id: str, token: str, at: float) -> None:
        """Say that the controller is alive; LostControlError if it is not in control."""
        with self._database.writing() as connection:
            control.beat(connection, job_id, token, at)

    def release(self, job_id: str, token: str) -> None:
        """Give up control; quiet if it was lost already."""
        with self._database.writing() as connection:
            control.release(connection, job_id, token)

    # Tasks and money

    def add_task(self, record: TaskRecord, token: str | None = None) -> None:
        """Keep the intent to launch; LostControlError if the token is not the controller's."""
        with self._database.writing() as connection:
            control.check(jobs.lock(connection, record.job_id), token)
            tasks.add(connection, record)

    def set_handle(self, task_id: str, handle: str) -> None:
        """Keep what the cloud answered."""
        with self._database.writing() as connection:
            tasks.set_handle(connection, task_id, handle)

    def end_task(self, task_id: str, ended_at: float) -> None:
        """Nothing of it runs any more; a second end changes nothing."""
        with self._database.writing() as connection:
            tasks.end(connection, task_id, ended_at)

    def task(self, task_id: str) -> TaskRecord:
        """One task; or NotFoundError."""
        with self._database.reading() as connection:
            return tasks.find(connection, task_id)

    def tasks(self, job_id: str | None = None, open_only: bool = False) -> list[TaskRecord]:
        """Tasks in order, of one job or of all; those that may still run, if asked."""
        with self._database.reading() as connection:
            return tasks.in_order(connection, job_id, open_only)

    def put_charges(self, job_id: str, task_id: str, kind: TaskKind, charges: Sequence[Charge]) -> None:
        """Replace the lines of a task on the bill."""
        with self._database.writing() as connection:
            jobs.lock(connection, job_id)
            tasks.put_charges(connection, job_id, task_id, kind, charges)

    def bill(self, job_id: str) -> tuple[BillItem, ...]:
        """All lines, task by task."""
        with self._database.reading() as connection:
            return tasks.bill(connection, job_id)

    def spent(self, job_id: str) -> float:
        """The sum of the bill in USD."""
        with self._database.reading() as connection:
            return tasks.spent(connection, job_id)

    def finish_probe(
        self, job_id: str, trial: Trial, kind: TaskKind, charges: Sequence[Charge], ended_at: float
    ) -> None:
        """Trial, bill and end of its task in one transaction: all or nothing."""
        with self._database.writing() as connection:
            jobs.lock(connection, job_id)
            history.add_trial(connection, job_id, trial)
            tasks.put_charges(connection, job_id, trial.task_id, kind, charges)
            tasks.end(connection, trial.task_id, ended_at)

    # What became of a job

    def add_trial(self, job_id: str, trial: Trial) -> None:
        """Keep a trial; a second one of the same task is passed over."""
        with self._database.writing() as connection:
            jobs.lock(connection, job_id)
            history.add_trial(connection, job_id, trial)

    def trials(self, job_id: str) -> tuple[Trial, ...]:
        """Trials in order."""
        with self._database.reading() as connection:
            return history.all_trials(connection, job_id)

    def put_attempt(self, job_id: str, attempt: Attempt) -> None:
        """Keep an attempt as it stands, in place of what was known of the same task."""
        with self._database.writing() as connection:
            jobs.lock(connection, job_id)
            history.put_attempt(connection, job_id, attempt)

    def attempts(self, job_id: str) -> tuple[Attempt, ...]:
        """Attempts by number."""
        with self._database.reading() as connection:
            return history.all_attempts(connection, job_id)

    def add_event(
        self, job_id: str, at: float, kind: str, message: str, data: Mapping[str, Any] | None = None
    ) -> Event:
        """Keep and number an event: 1, 2, 3 … within its job."""
        with self._database.writing() as connection:
            jobs.lock(connection, job_id)
            return history.add_event(connection, job_id, at, kind, message, dict(data or {}))

    def add_event_once(
        self, job_id: str, at: float, kind: str, message: str, data: Mapping[str, Any]
    ) -> Event | None:
        """Keep an event unless one of that kind and with these data is there; None: it is.

        `at` is on the wall's clock; in a job that lives by another, it is the moment of its newest event.
        """
        with self._database.writing() as connection:
            record = jobs.lock(connection, job_id)
            known = history.events_after(connection, job_id, 0, None)
            if any(event.kind == kind and event.data == dict(data) for event in known):
                return None
            if record.virtual_clock:
                at = known[-1].at if known else record.submitted_at
            return history.add_event(connection, job_id, at, kind, message, dict(data))

    def events(self, job_id: str, after: int = 0, limit: int | None = None) -> list[Event]:
        """Events in order, from the one after that number."""
        with self._database.reading() as connection:
            return history.events_after(connection, job_id, after, limit)

    def put_live(self, job_id: str, live: Live | None) -> None:
        """Keep a task that runs now, as just seen; None: nothing does."""
        with self._database.writing() as connection:
            jobs.lock(connection, job_id)
            history.put_live(connection, job_id, live)

    def live(self, job_id: str) -> Live | None:
        """The newest task that was seen running."""
        return next(reversed(self.lives(job_id)), None)

    def lives(self, job_id: str) -> tuple[Live, ...]:
        """All tasks that were seen running when the newest one was, oldest first."""
        with self._database.reading() as connection:
            return history.all_lives(connection, job_id)

    # Training curves

    def add_points(
        self, job_id: str, task_id: str, points: Sequence[Point], metrics: Sequence[MetricPoint] = ()
    ) -> None:
        """Append to a task's curves; what was sent before is passed over."""
        with self._database.writing() as connection:
            task = tasks.number_of(connection, job_id, task_id)
            curves.add_points(connection, task, points)
            curves.add_metrics(connection, task, metrics)

    def points(self, job_id: str, most: int | None = None) -> tuple[Point, ...]:
        """Progress, all attempts in one line (see curves); at most so many points, first and last included."""
        with self._database.reading() as connection:
            return curves.all_points(connection, job_id, most)

    def metrics(self, job_id: str, most: int | None = None) -> tuple[MetricPoint, ...]:
        """Metrics, all attempts in one line, by time; of each name at most so many, first and last included."""
        with self._database.reading() as connection:
            return curves.all_metrics(connection, job_id, most)
