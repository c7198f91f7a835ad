"""The client of this computer."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

from mlcd.api.limits import FIXED_BY_HAND, new_limits, new_state
from mlcd.api.submit import check_job, opened_cloud, submit_job
from mlcd.client import ClientProtocol
from mlcd.clouds.base import Cloud
from mlcd.core.jobfile import LoadedJob
from mlcd.core.listing import JobLine, Lesson, LogPage, Page
from mlcd.core.machines import Offer
from mlcd.core.progress import MetricPoint, Point
from mlcd.core.records import Event, JobRecord, TaskRecord
from mlcd.core.run import JobState
from mlcd.core.view import Check, JobStory, JobView, Stray
from mlcd.engine.archive import zip_folder
from mlcd.engine.control import alive, start_controller, surely_alive
from mlcd.engine.controller import drive
from mlcd.engine.lists import list_jobs, list_lessons
from mlcd.engine.logs import log_page
from mlcd.engine.spaces import find_deployment, space_on
from mlcd.engine.sweep import sweep
from mlcd.engine.views import story_of, view_of
from mlcd.errors import NotFoundError, UserError
from mlcd.reporting import write_report
from mlcd.serving.pool import ModelPool
from mlcd.settings import Settings, read_settings
from mlcd.store import Store, open_store

REVIVE_SECONDS = 10.0  # a controller that was just started has not taken control yet; a busy computer is slow
_UNFINISHED = (JobState.SEARCHING, JobState.PLANNED, JobState.TRAINING)


class Client(ClientProtocol):
    """mlcd in this process, on this computer's store."""

    poll_seconds = 0.25

    def __init__(self, settings: Settings | None = None, store: Store | None = None) -> None:
        self.settings = settings or read_settings()
        if store is not None:
            self.store = store
        self._started: dict[str, float] = {}
        # Whether a controller that is gone may be replaced; a server asks what the job's owner may do.
        self.may_revive: Callable[[JobRecord], bool] = lambda _record: True

    @cached_property
    def store(self) -> Store:
        """The database, opened when it is first needed."""
        return open_store(self.settings.store_url)

    @cached_property
    def models(self) -> ModelPool:
        """The processes of models that are asked for predictions."""
        return ModelPool(self.settings.predict)

    @property
    def default_cloud(self) -> str:
        """The cloud of the settings."""
        return self.settings.cloud

    def close(self) -> None:
        """Close the store and end the processes of models; what runs goes on."""
        for name in ("models", "store"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()

    # Before a job runs

    def check(
        self, loaded: LoadedJob, *, cloud: str | None = None, cloud_options: Mapping[str, str] | None = None
    ) -> Check:
        return check_job(self.settings, loaded, cloud, cloud_options)

    def submit(
        self,
        loaded: LoadedJob,
        *,
        cloud: str | None = None,
        cloud_options: Mapping[str, str] | None = None,
        owner: str = "",
        job_id: str | None = None,
    ) -> str:
        """Store the job and return its id; nothing is started and nothing spent.

        A caller that chooses the id (see new_job_id) may submit again after a crash: there is one job.
        """
        return submit_job(self.store, self.settings, loaded, cloud, cloud_options, owner, job_id)

    # Control

    def start(self, job_id: str) -> None:
        """Start a detached controller for the job unless one is running."""
        record = self.store.job(job_id)
        if not record.started:
            record = self.store.change_job(record.id, started=True)
        if not surely_alive(record.controller):
            self._started[record.id] = time.monotonic()
            start_controller(self.settings, self.store, record.id)

    def drive(self, job_id: str) -> JobView:
        """Be the controller in this process until the job rests."""
        record = self.store.job(job_id)
        drive(self.store, self.settings, record.id)
        return self.view(record.id)

    def confirm(self, job_id: str) -> None:
        record = self.store.job(job_id)
        record = self.store.change_job(record.id, confirmed=True)
        if record.state is JobState.PLANNED:
            self.start(record.id)

    def stop(self, job_id: str) -> JobView:
        """Ask the job to save a checkpoint and stop; what runs ends within its grace period."""
        record = self.store.job(job_id)
        if record.state in _UNFINISHED:
            self.store.change_job(record.id, stop_asked=True)
            self.start(record.id)
        return self.view(record.id)

    def resume(self, job_id: str, *, budget_usd: float | None = None, deadline: str | None = None) -> JobView:
        record = self.store.job(job_id)
        if record.state is JobState.SUCCEEDED:
            raise UserError(f"Job {record.id} is done.", f"`mlcd report {record.id}` tells its story.")
        spent_usd = self.store.spent(record.id)
        changes: dict[str, Any] = new_limits(budget_usd, deadline, spent_usd, self._now(record))
        if record.exit_code in FIXED_BY_HAND:
            changes["fixes"] = record.fixes + 1  # earlier failures count no more
        self.store.change_job(record.id, **changes, **new_state(record))
        self.start(record.id)
        return self.view(record.id)

    def move(
        self,
        job_id: str,
        *,
        instance: str | None = None,
        nodes: int | None = None,
        batch_size: int | None = None,
    ) -> JobView:
        record = self.store.job(job_id)
        if record.state is not JobState.TRAINING:
            raise UserError(f"Job {record.id} is {record.state}: only a training can be moved.")
        with self._cloud_of(record) as cloud:
            space = space_on(cloud, record.job, record.offers).deployments
        target = find_deployment(space, record.deployment, instance, nodes, batch_size)
        if target == record.deployment and record.move_asked is None:
            raise UserError(f"Job {record.id} runs on {target} already.", "Name other machines, nodes or batch size.")
        self.store.change_job(record.id, move_asked=target)
        return self.view(record.id)

    def revive(self) -> int:
        """Replace every controller that is gone and may be replaced; returns how many."""
        unfinished = self.store.jobs(_UNFINISHED)
        gone = [record for record in unfinished if self._is_orphaned(record, alive(record.controller))]
        for record in gone:
            self.start(record.id)
        return len(gone)

    # Status

    def view(self, job_id: str) -> JobView:
        """The present state of a job; a dead controller is replaced."""
        return self._view(self.store.job(job_id))

    def views(self) -> list[JobView]:
        """All jobs, newest first; dead controllers are replaced."""
        return [self._view(record) for record in self.store.jobs()]

    def find(self, job_id: str, owners: Collection[str] | None = None) -> JobRecord:
        """The job of one of these owners with this id, name or beginning of an id."""
        return self.store.job(job_id, owners)

    def lines(
        self,
        *,
        states: Collection[JobState] | None = None,
        words: str = "",
        cursor: str | None = None,
        limit: int = 50,
        owners: Collection[str] | None = None,
    ) -> Page[JobLine]:
        """A page of the list of jobs, newest first; fast with any number of jobs."""
        return list_jobs(self.store, owners, states, words, cursor, limit)

    def events(self, job_id: str, after: int = 0, limit: int | None = None) -> list[Event]:
        return self.store.events(self.store.job(job_id).id, after, limit)

    def tasks(self, job_id: str) -> list[TaskRecord]:
        """The job's probes and attempts, in order."""
        return self.store.tasks(self.store.job(job_id).id)

    def training_curves(
        self, job_id: str, most: int | None = None
    ) -> tuple[tuple[Point, ...], tuple[MetricPoint, ...]]:
        """Progress and metrics of the training, thinned out to at most so many points each."""
        return self.store.points(job_id, most), self.store.metrics(job_id, most)

    def log_page(self, job_id: str, *, after: int = 0, node: int = 0, task: str | None = None) -> LogPage:
        return log_page(self.store, self.settings, self.store.job(job_id), task, node, after)

    def remaining_usd(self) -> float:
        """What all running jobs are expected to spend from now on; replays cost nothing."""
        return sum(self._remaining_usd(record) for record in self.store.jobs(_UNFINISHED) if not record.virtual_clock)

    # Results

    def story(self, job_id: str) -> JobStory:
        view = self.view(job_id)
        with self._cloud_of(view.record) as cloud:
            return story_of(self.store, self.settings, cloud, view)

    def report(self, job_id: str, path: Path | None = None) -> Path:
        story = self.story(job_id)
        return write_report(story, path or Path(f"mlcd-report-{story.view.record.id}.html"))

    def model(self, job_id: str) -> Iterator[bytes]:
        return zip_folder(self.model_folder(job_id))

    def model_folder(self, job_id: str) -> Path:
        """Where the trained model is; or NotFoundError."""
        view = self.view(job_id)
        if not view.model:
            raise NotFoundError(f"Job {view.record.id} has no model.", f"It is {view.record.state}.")
        return Path(view.model)

    def predict(self, job_id: str, inputs: Any, *, dtype: str = "float32") -> Any:
        """The outputs of the job's model, which runs in its own process and stays loaded for a while."""
        record = self.store.job(job_id)
        return self.models.predict(record.id, self.model_folder(record.id), inputs, dtype)

    def lessons(
        self, *, cursor: str | None = None, limit: int = 50, owners: Collection[str] | None = None
    ) -> Page[Lesson]:
        return list_lessons(self.store, owners, cursor, limit)

    # Machines

    def offers(self, cloud: str | None = None, cloud_options: Mapping[str, str] | None = None) -> list[Offer]:
        with opened_cloud(self.settings, cloud or self.settings.cloud, cloud_options) as opened:
            return list(opened.offers())

    def sweep(self, *, end: bool = False, others: bool = False) -> list[Stray]:
        clouds = {self.settings.cloud, *(record.cloud for record in self.store.jobs())} - {"replay"}
        return sweep(self.store, self.settings, sorted(clouds), end, others)

    def _view(self, record: JobRecord) -> JobView:
        view = view_of(self.store, self.settings, record, self._now(record))
        if self._is_orphaned(record, view.controlled):
            self.start(record.id)
        return view

    def _is_orphaned(self, record: JobRecord, controlled: bool) -> bool:
        """Whether its controller died and may be replaced; one that was just started gets time to take control."""
        since = time.monotonic() - self._started.get(record.id, float("-inf"))
        orphaned = record.needs_controller and not controlled and since > REVIVE_SECONDS
        return orphaned and (record.stop_asked or self.may_revive(record))  # what runs must be ended

    def _now(self, record: JobRecord) -> float:
        """On the job's clock."""
        if not record.virtual_clock:
            return time.time()
        newest = self.store.events(record.id)[-1:]
        return newest[0].at if newest else record.submitted_at

    def _cloud_of(self, record: JobRecord) -> AbstractContextManager[Cloud]:
        return opened_cloud(self.settings, record.cloud, record.cloud_options)

    def _remaining_usd(self, record: JobRecord) -> float:
        """By what is measured now, else by the plan, else by the budget."""
        live = self.store.live(record.id)
        total = live.total_usd if live is not None else None
        if total is None:
            total = record.plan.total.usd if record.plan is not None else record.budget_usd or 0.0
        return max(0.0, total - self.store.spent(record.id))
