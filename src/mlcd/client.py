"""What every client of mlcd can do: `mlcd.Client` on this computer, `mlcd.RemoteClient` on a server.

The command line is written against this protocol. One contract test holds each client to it.
"""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from mlcd.core.job import Job
from mlcd.core.jobfile import LoadedJob, load
from mlcd.core.listing import JobLine, Lesson, LogPage, Page
from mlcd.core.machines import Offer
from mlcd.core.records import Event
from mlcd.core.run import JobState
from mlcd.core.view import Check, JobStory, JobView, Stray
from mlcd.errors import NotFoundError
from mlcd.forecast.curves import Price
from mlcd.reporting.curve import Curve, curve_of

JobSource = str | Path | Job | Mapping[str, Any]


class ClientProtocol(Protocol):
    """Jobs go by their id, their name, or the beginning of an id."""

    poll_seconds: float

    @property
    @abstractmethod
    def default_cloud(self) -> str:
        """The cloud of jobs that name none."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what the client holds; what runs goes on."""

    # Before a job runs

    def load(
        self,
        job: JobSource,
        *,
        envs: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        base: Path = Path(),
    ) -> LoadedJob:
        """Read and check a job: a file, a mapping with the same keys, or a Job.

        The paths of a mapping are seen from base. Variables without a value come from environ, by default
        this process's.
        """
        return load(
            job,
            base,
            envs=envs or {},
            secrets=secrets or {},
            environ=os.environ if environ is None else environ,
            overrides=overrides or {},
            defaults={"cloud": self.default_cloud},
        )

    @abstractmethod
    def check(
        self, loaded: LoadedJob, *, cloud: str | None = None, cloud_options: Mapping[str, str] | None = None
    ) -> Check:
        """The deployments that the job would try; nothing is spent."""

    @abstractmethod
    def submit(
        self, loaded: LoadedJob, *, cloud: str | None = None, cloud_options: Mapping[str, str] | None = None
    ) -> str:
        """Store the job and return its id; nothing is started."""

    # Control

    @abstractmethod
    def start(self, job_id: str) -> None:
        """Start a controller for the job unless one is running."""

    @abstractmethod
    def confirm(self, job_id: str) -> None:
        """Accept the plan, now or in advance: the training may cost money."""

    @abstractmethod
    def stop(self, job_id: str) -> JobView:
        """Ask the job to save a checkpoint and stop; a job that has ended is left alone."""

    @abstractmethod
    def resume(self, job_id: str, *, budget_usd: float | None = None, deadline: str | None = None) -> JobView:
        """Continue a job that stopped, with new limits if given; of a running job, only the limits change."""

    @abstractmethod
    def move(
        self,
        job_id: str,
        *,
        instance: str | None = None,
        nodes: int | None = None,
        batch_size: int | None = None,
    ) -> JobView:
        """Continue a training on another deployment from its checkpoint; what is not named stays as it is."""

    # Status

    @abstractmethod
    def view(self, job_id: str) -> JobView:
        """The present state of a job."""

    @abstractmethod
    def views(self) -> list[JobView]:
        """All jobs, newest first."""

    @abstractmethod
    def lines(
        self,
        *,
        states: Collection[JobState] | None = None,
        words: str = "",
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[JobLine]:
        """A page of the list of jobs, newest first."""

    @abstractmethod
    def events(self, job_id: str, after: int = 0) -> list[Event]:
        """The job's events after that number."""

    def follow(self, job_id: str) -> Iterator[JobView]:
        """Views of the job, one after the other, until it rests."""
        view = self.view(job_id)
        yield view
        while not view.at_rest:
            time.sleep(self.poll_seconds)
            view = self.view(view.record.id)
            yield view

    def logs(self, job_id: str, *, follow: bool = False, node: int = 0, task: str | None = None) -> Iterator[str]:
        """Lines of a task's log, by default the newest task's, with secrets redacted."""
        page = self._first_log_page(job_id, follow, node, task)
        while True:
            yield from page.lines
            if page.over or not (page.lines or follow):
                return
            if not page.lines:
                time.sleep(self.poll_seconds)
            page = self.log_page(job_id, after=page.next, node=node, task=page.task_id)

    @abstractmethod
    def log_page(self, job_id: str, *, after: int = 0, node: int = 0, task: str | None = None) -> LogPage:
        """Whole lines of a task's log from an offset, by default the newest task's, with secrets redacted."""

    # Results

    @abstractmethod
    def story(self, job_id: str) -> JobStory:
        """A job with everything that its report shows."""

    def curve(self, job_id: str, price: Price | None = None) -> Curve:
        """Time against cost over the job's deployments, with the Pareto front and its knee."""
        return curve_of(self.story(job_id), price)

    @abstractmethod
    def report(self, job_id: str, path: Path | None = None) -> Path:
        """Write the job's report as one self-contained HTML file."""

    @abstractmethod
    def model(self, job_id: str) -> Iterator[bytes]:
        """The trained model, as a zip file in chunks."""

    @abstractmethod
    def predict(self, job_id: str, inputs: Any, *, dtype: str = "float32") -> Any:
        """The outputs of the job's model for these inputs."""

    @abstractmethod
    def lessons(self, *, cursor: str | None = None, limit: int = 50) -> Page[Lesson]:
        """A page of what earlier jobs tried and chose, newest first."""

    # Machines

    @abstractmethod
    def offers(self, cloud: str | None = None, cloud_options: Mapping[str, str] | None = None) -> list[Offer]:
        """What a cloud sells now."""

    @abstractmethod
    def sweep(self, *, end: bool = False, others: bool = False) -> list[Stray]:
        """What costs money and belongs to no running job; ended with `end`, also what other computers manage with `others`."""

    def _first_log_page(self, job_id: str, follow: bool, node: int, task: str | None) -> LogPage:
        """The first page; a job without a log is waited for if its log is followed."""
        while True:
            try:
                return self.log_page(job_id, node=node, task=task)
            except NotFoundError:
                if not follow or task is not None:
                    raise
            self.view(job_id)  # an unknown job is an error
            time.sleep(self.poll_seconds)
