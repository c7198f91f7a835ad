"""The client: every verb of mlcd, in process. The command line and the pages call this and nothing else.

client = mlcd.Client()
job_id = client.submit(client.load("job.yaml"))
client.start(job_id)                     # a detached controller searches
for view in client.follow(job_id): ...   # until the plan is there
client.confirm(job_id)                   # it trains
for view in client.follow(job_id): ...   # until the model is there
"""

from __future__ import annotations

import os
import re
import secrets as tokens
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from mlcd import registry
from mlcd.clouds.base import Cloud, Recorded
from mlcd.core.clock import SystemClock
from mlcd.core.job import Job
from mlcd.core.jobfile import LoadedJob, load
from mlcd.core.jobfile.values import usd
from mlcd.core.listing import JobLine, Lesson, LogPage, Page
from mlcd.core.machines import Offer
from mlcd.core.records import Event, JobRecord
from mlcd.core.run import JobState
from mlcd.core.scripts import missing_script
from mlcd.core.task import TaskFolder
from mlcd.core.units import parse_duration, parse_moment
from mlcd.core.view import Check, JobStory, JobView, Stray
from mlcd.engine.archive import zip_folder
from mlcd.engine.context import job_folder, work_of
from mlcd.engine.control import alive, start_controller, surely_alive
from mlcd.engine.controller import drive
from mlcd.engine.lists import list_jobs, list_lessons
from mlcd.engine.logs import log_page, task_with_log
from mlcd.engine.searchers import searcher_for
from mlcd.engine.secrets import keep_secrets, read_secrets, redact
from mlcd.engine.spaces import find_deployment, space_on
from mlcd.engine.sweep import sweep
from mlcd.engine.tasks import task_folder
from mlcd.engine.views import story_of, view_of
from mlcd.errors import CloudError, InvalidJobError, MlcdError, NotFoundError, TaskFailedError, UserError
from mlcd.forecast.curves import Price
from mlcd.reporting import write_report
from mlcd.reporting.curve import Curve, curve_of
from mlcd.serving.pool import ModelPool
from mlcd.settings import Settings, read_settings
from mlcd.store import Store, open_store

FOLLOW_SECONDS = 0.25
# How jobs end that go on once somebody has fixed something: the program, the settings, or what a cloud did not allow.
_FIXED_BY_HAND = (TaskFailedError.exit_code, UserError.exit_code, CloudError.exit_code)
REVIVE_SECONDS = 10.0  # a controller that was just started has not taken control yet; a busy computer is slow


class Client:
    """mlcd in this process, on this computer's store."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or read_settings()
        self._started: dict[str, float] = {}
        # Whether a controller that is gone may be replaced; a server asks what the job's owner may do.
        self.may_revive: Callable[[JobRecord], bool] = lambda _record: True

    @cached_property
    def store(self) -> Store:
        """Opened when it is first needed."""
        return open_store(self.settings.store_url)

    @cached_property
    def models(self) -> ModelPool:
        """The models that are asked for predictions."""
        return ModelPool(self.settings.predict)

    def close(self) -> None:
        """Let go of the store and of models that were asked; what runs goes on."""
        if "models" in self.__dict__:
            self.models.close()
            del self.__dict__["models"]
        if "store" in self.__dict__:
            self.store.close()
            del self.__dict__["store"]

    def load(
        self,
        job: str | Path | Job | Mapping[str, Any],
        *,
        envs: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        base: Path = Path(),
    ) -> LoadedJob:
        """Read and check a job: a file, a mapping with the same keys, or a Job.

        The paths of a mapping are seen from base; variables without a value come from environ, by default
        this process's.
        """
        return load(
            job,
            base,
            envs=envs or {},
            secrets=secrets or {},
            environ=os.environ if environ is None else environ,
            overrides=overrides or {},
            defaults={"cloud": self.settings.cloud},
        )

    def check(
        self, loaded: LoadedJob, *, cloud: str | None = None, cloud_options: Mapping[str, str] | None = None
    ) -> Check:
        """What the job would try, before anything is spent."""
        try:
            return self._check(loaded, cloud, cloud_options)
        except InvalidJobError as error:
            raise loaded.placed(error) from error

    def _check(self, loaded: LoadedJob, cloud: str | None, cloud_options: Mapping[str, str] | None) -> Check:
        work_of(loaded.job)
        _check_names(loaded.job, cloud)
        with self._cloud(cloud or loaded.job.cloud, cloud_options) as seller:
            notices = () if isinstance(seller, Recorded) else _check_script(loaded.job)
            space = space_on(seller, loaded.job, seller.offers())
            expected = seller.expected_probe(loaded.job.probe.measuring_seconds)
            seconds = tuple(expected.seconds(deployment.nodes) for deployment in space.deployments)
        pairs = zip(space.deployments, seconds, strict=True)
        usd = tuple(deployment.rental_usd(took) for deployment, took in pairs)
        return Check(loaded.job, loaded.notices + notices + space.notices, space.deployments, seconds, usd)

    def submit(
        self,
        loaded: LoadedJob,
        *,
        cloud: str | None = None,
        cloud_options: Mapping[str, str] | None = None,
        owner: str = "",
        job_id: str | None = None,
    ) -> str:
        """Write the job down; nothing is started and nothing spent. Gives its id.

        Whoever chooses the id beforehand (see new_job_id) may submit again after a crash: there is one job.
        """
        if job_id is not None and self._is_known(job_id):
            return job_id
        name = cloud or loaded.job.cloud
        self.check(loaded, cloud=cloud, cloud_options=cloud_options)
        missing = [key for key in loaded.job.secret_names if key not in loaded.secrets]
        if missing:
            raise InvalidJobError(
                f"Secret '{missing[0]}' has no value.",
                f"Set it in the environment, or pass it on with --secret {missing[0]}.",
            )
        chosen, job_id = job_id, job_id or new_job_id(loaded.job.name)
        folder = job_folder(self.settings, job_id)
        folder.mkdir(parents=True, mode=0o700, exist_ok=chosen is not None)
        keep_secrets(folder, loaded.secrets)
        options = dict(cloud_options or {})
        if "trace" in options:
            options["trace"] = str(Path(options["trace"]).expanduser().absolute())
            options.setdefault("state", str(folder / "replay.json"))  # a time of its own for each job
        with self._cloud(name, options) as seller:
            now, virtual = seller.clock.now(), not isinstance(seller.clock, SystemClock)
        record = JobRecord(
            id=job_id,
            job=loaded.job,
            state=JobState.SEARCHING,
            submitted_at=now,
            cloud=name,
            cloud_options=options,
            budget_usd=loaded.job.budget_usd,
            deadline_at=_deadline_at(loaded.job, now),
            virtual_clock=virtual,
            owner=owner,
            started=False,
        )
        try:
            self.store.add_job(record)
        except MlcdError:
            if chosen is not None and self._is_known(job_id):
                return job_id  # the same was submitted at the same moment
            if chosen is None:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        return job_id

    def start(self, job_id: str) -> None:
        """Have a detached controller take the job as far as it goes, if none is at work."""
        record = self.store.job(job_id)
        if not record.started:
            record = self.store.change_job(record.id, started=True)
        if not surely_alive(record.controller):
            self._started[record.id] = time.monotonic()
            start_controller(self.settings, record)

    def drive(self, job_id: str) -> JobView:
        """Be the controller in this very process until the job rests."""
        record = self.store.job(job_id)
        drive(self.store, self.settings, record.id)
        return self.view(record.id)

    def confirm(self, job_id: str) -> None:
        """Accept the plan, now or ahead of it: the training may cost money."""
        record = self.store.job(job_id)
        record = self.store.change_job(record.id, confirmed=True)
        if record.state is JobState.PLANNED:
            self.start(record.id)

    def follow(self, job_id: str) -> Iterator[JobView]:
        """Snapshots until the job rests; a controller found dead is replaced."""
        record = self.store.job(job_id)
        while True:
            view = self.view(record.id)
            yield view
            if at_rest(view):
                return
            time.sleep(FOLLOW_SECONDS)

    def view(self, job_id: str) -> JobView:
        """How a job stands; a controller found dead is replaced."""
        record = self.store.job(job_id)
        view = view_of(self.store, self.settings, record, self._now(record))
        self._revive(view)
        return view

    def views(self) -> list[JobView]:
        """All jobs, newest first; controllers found dead are replaced."""
        found = [
            view_of(self.store, self.settings, record, self._now(record)) for record in self.store.jobs()
        ]
        for view in found:
            self._revive(view)
        return found

    def find(self, job_id: str, owners: Collection[str] | None = None) -> JobRecord:
        """The job of one of these owners that goes by this id, name or beginning of an id."""
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
        """A page of the list of jobs, newest first: of any number of jobs in a moment."""
        return list_jobs(self.store, owners, states, words, cursor, limit)

    def revive(self) -> int:
        """Replace every controller that is gone and may be replaced; gives how many."""
        unfinished = self.store.jobs((JobState.SEARCHING, JobState.PLANNED, JobState.TRAINING))
        gone = [record for record in unfinished if self._is_forsaken(record, alive(record.controller))]
        for record in gone:
            self.start(record.id)
        return len(gone)

    def story(self, job_id: str) -> JobStory:
        """A job with all that a report tells of it."""
        view = self.view(job_id)
        with self._cloud(view.record.cloud, view.record.cloud_options) as cloud:
            return story_of(self.store, self.settings, cloud, view)

    def events(self, job_id: str, after: int = 0) -> list[Event]:
        """What has happened since that event."""
        return self.store.events(self.store.job(job_id).id, after)

    def logs(
        self, job_id: str, *, follow: bool = False, node: int = 0, task: str | None = None
    ) -> Iterator[str]:
        """Lines of a task's log, the newest task's by default; secrets are blotted out."""
        record = self.store.job(job_id)
        hidden = read_secrets(job_folder(self.settings, record.id))
        for line in self._raw_logs(record, follow, node, task):
            yield redact(line, hidden)

    def log_page(self, job_id: str, *, after: int = 0, node: int = 0, task: str | None = None) -> LogPage:
        """Whole lines of a task's log from a place on, the newest task's by default; secrets are blotted out."""
        return log_page(self.store, self.settings, self.store.job(job_id), task, node, after)

    def stop(self, job_id: str) -> JobView:
        """Ask the job to stop with a checkpoint; what runs ends within its grace period."""
        record = self.store.job(job_id)
        if record.state in (JobState.SUCCEEDED, JobState.STOPPED, JobState.FAILED, JobState.PAUSED):
            return self.view(record.id)
        self.store.change_job(record.id, stop_asked=True)
        self.start(record.id)
        return self.view(record.id)

    def resume(self, job_id: str, *, budget_usd: float | None = None, deadline: str | None = None) -> JobView:
        """Go on where the job stopped, with new limits if given; of a job at work, only the limits change."""
        record = self.store.job(job_id)
        if record.state is JobState.SUCCEEDED:
            raise UserError(f"Job {record.id} is done.", f"`mlcd report {record.id}` tells its story.")
        changes: dict[str, Any] = self._new_limits(record, budget_usd, deadline)
        if record.exit_code in _FIXED_BY_HAND:
            changes["fixes"] = record.fixes + 1  # it was fixed, or so it is hoped
        if record.state in (JobState.PAUSED, JobState.STOPPED, JobState.FAILED):
            changes |= {
                "state": JobState.TRAINING
                if record.plan and record.confirmed
                else JobState.PLANNED
                if record.plan
                else JobState.SEARCHING,
                "error": "",
                "enough_seconds": None,
                "enough_usd": None,
                "exit_code": 0,
                "ended_at": None,
                "stop_asked": False,
            }
        record = self.store.change_job(record.id, **changes)
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
        """Have a training go on elsewhere, through its checkpoint: other machines, more or fewer, another batch."""
        record = self.store.job(job_id)
        if record.state is not JobState.TRAINING:
            raise UserError(f"Job {record.id} is {record.state}: only a training can be moved.")
        with self._cloud(record.cloud, record.cloud_options) as seller:
            space = space_on(seller, record.job, record.offers).deployments
        target = find_deployment(space, record.deployment, instance, nodes, batch_size)
        if target == record.deployment and record.move_asked is None:
            raise UserError(
                f"Job {record.id} runs on {target} already.", "Name other machines, nodes or batch size."
            )
        self.store.change_job(record.id, move_asked=target)
        return self.view(record.id)

    def report(self, job_id: str, path: Path | None = None) -> Path:
        """Write one self-contained HTML file that tells the job's story."""
        story = self.story(job_id)
        return write_report(story, path or Path(f"mlcd-report-{story.view.record.id}.html"))

    def model(self, job_id: str) -> Iterator[bytes]:
        """What the training handed back, as a zip file in pieces."""
        view = self.view(job_id)
        if not view.model:
            raise NotFoundError(f"Job {view.record.id} has no model.", f"It is {view.record.state}.")
        return zip_folder(Path(view.model))

    def predict(self, job_id: str, inputs: Any, *, dtype: str = "float32") -> Any:
        """What the job's model makes of the inputs; it runs in a process of its own, which is kept for a while."""
        view = self.view(job_id)
        if not view.model:
            raise NotFoundError(f"Job {view.record.id} has no model.", f"It is {view.record.state}.")
        return self.models.predict(view.record.id, Path(view.model), inputs, dtype)

    def lessons(
        self, *, cursor: str | None = None, limit: int = 50, owners: Collection[str] | None = None
    ) -> Page[Lesson]:
        """What earlier jobs tried and learnt, newest first."""
        return list_lessons(self.store, owners, cursor, limit)

    def curve(self, job_id: str, price: Price | None = None) -> Curve:
        """Time against cost over the job's deployments, with the Pareto front and its knee."""
        return curve_of(self.story(job_id), price)

    def offers(self, cloud: str | None = None, cloud_options: Mapping[str, str] | None = None) -> list[Offer]:
        """What a cloud sells now."""
        with self._cloud(cloud or self.settings.cloud, cloud_options) as seller:
            return list(seller.offers())

    def sweep(self, *, end: bool = False, others: bool = False) -> list[Stray]:
        """What costs money and belongs to no job at work; ended if asked for, what others look after too if `others`."""
        clouds = {self.settings.cloud, *(record.cloud for record in self.store.jobs())} - {"replay"}
        return sweep(self.store, self.settings, sorted(clouds), end, others)

    def _is_known(self, job_id: str) -> bool:
        try:
            return self.store.job(job_id).id == job_id
        except NotFoundError:
            return False

    @contextmanager
    def _cloud(self, name: str, options: Mapping[str, str] | None) -> Iterator[Cloud]:
        cloud: Cloud = registry.load("clouds", name)(self.settings, dict(options or {}))
        try:
            yield cloud
        finally:
            cloud.close()

    def _now(self, record: JobRecord) -> float:
        """On the clock that the job lives by."""
        if not record.virtual_clock:
            return time.time()
        newest = self.store.events(record.id)[-1:]
        return newest[0].at if newest else record.submitted_at

    def _revive(self, view: JobView) -> None:
        """Replace a controller that died; one that was just started gets a moment to take over."""
        if self._is_forsaken(view.record, view.controlled):
            self.start(view.record.id)

    def _is_forsaken(self, record: JobRecord, controlled: bool) -> bool:
        since = time.monotonic() - self._started.get(record.id, float("-inf"))
        forsaken = record.needs_controller and not controlled and since > REVIVE_SECONDS
        return forsaken and (record.stop_asked or self.may_revive(record))  # what runs must be ended

    def _new_limits(
        self, record: JobRecord, budget_usd: float | None, deadline: str | None
    ) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if budget_usd is not None:
            spent = self.store.spent(record.id)
            _check_amount(budget_usd)
            if budget_usd <= spent:
                raise UserError(f"A budget of ${budget_usd:g} is spent already: the bill is ${spent:.4f}.")
            changes["budget_usd"] = budget_usd
        if deadline is not None:
            changes["deadline_at"] = _new_deadline(deadline, self._now(record))
        return changes

    def _raw_logs(self, record: JobRecord, follow: bool, node: int, task: str | None) -> Iterator[str]:
        while follow and task is None and not self.store.tasks(record.id):
            time.sleep(FOLLOW_SECONDS)
        found = task_with_log(self.store, record, task, node).id
        log = TaskFolder(task_folder(job_folder(self.settings, record.id), found)).log(node)
        yield from _tail(log, lambda: follow and self.store.task(found).ended_at is None)


def _tail(log: Path, more: Any) -> Iterator[str]:
    """Lines of a file that may still grow."""
    while not log.is_file():
        if not more():
            return
        time.sleep(FOLLOW_SECONDS)
    with log.open(errors="replace") as stream:
        while True:
            goes_on = more()
            for line in stream:
                yield line.rstrip("\n")
            if not goes_on:
                return
            time.sleep(FOLLOW_SECONDS)


def at_rest(view: JobView) -> bool:
    """Whether nothing happens to the job until somebody asks for it."""
    return not view.record.needs_controller and not view.controlled


def _deadline_at(job: Job, now: float) -> float | None:
    """On the cloud's clock, which may not be the one on the wall."""
    if job.deadline_at is not None:
        return now + (job.deadline_at - time.time())
    return None if job.deadline_seconds is None else now + job.deadline_seconds


def _check_amount(budget_usd: float) -> None:
    """Refuse what is no amount of US dollars, in the words of job files."""
    try:
        usd(budget_usd)
    except ValueError as error:
        raise UserError(f"budget: {error}.", "Write for example 30.") from error


def _new_deadline(text: str, now: float) -> float:
    """A duration from now, or a clock time."""
    try:
        return now + parse_duration(text)
    except ValueError:
        pass
    try:
        return now + (parse_moment(text).timestamp() - time.time())
    except ValueError as error:
        raise UserError(f"'{text}' is no deadline.", "Write '6h', or a clock time with its zone.") from error


def new_job_id(name: str) -> str:
    """An id for a job of that name, which no other has."""
    return f"{_slug(name)}-{tokens.token_hex(3)}"


def _check_names(job: Job, cloud: str | None) -> None:
    """Refuse a job that names a cloud, a platform, a strategy or an option that is not there."""
    names = {"platform": ("platforms", job.platform), "search.strategy": ("searchers", job.search.strategy)}
    if cloud is None:
        names["cloud"] = ("clouds", job.cloud)
    for key, (group, name) in names.items():
        try:
            registry.load(group, name)
        except NotFoundError as error:
            raise InvalidJobError(error.message, error.hint, key) from error
    if job.topology not in registry.load("platforms", job.platform).topologies:
        raise InvalidJobError(
            f"The platform '{job.platform}' has no topology '{job.topology}'.", "Leave it out.", "topology"
        )
    try:
        searcher_for(job)
    except (TypeError, ValueError) as error:
        raise InvalidJobError(
            f"Strategy '{job.search.strategy}' does not take these options: {error}.",
            "Mend `search.options`.",
            "search.options",
        ) from error


def _check_script(job: Job) -> tuple[str, ...]:
    """Refuse a command whose script is not there; where `setup` may yet make it, a notice says so."""
    script = missing_script(job)
    if script is None:
        return ()
    if job.setup.strip():
        return (f"run: '{script}' is not in the working directory now; `setup` has to make it.",)
    where = "in the working directory" if job.workdir else "there: the job has no `workdir`"
    raise InvalidJobError(
        f"'{script}' is not {where}.", "Set `workdir` to the folder of the program, or fix `run`.", "run"
    )


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32] or "job"
