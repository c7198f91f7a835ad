"""A job is checked and stored; nothing is started and nothing spent."""

from __future__ import annotations

import re
import secrets as tokens
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mlcd import registry
from mlcd.clouds.accounts import is_this_computer
from mlcd.clouds.base import Cloud, Particular, Recorded
from mlcd.core.clock import SystemClock
from mlcd.core.counting import uncounted
from mlcd.core.job import Job
from mlcd.core.jobfile import LoadedJob
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.core.scripts import missing_script
from mlcd.core.view import Check
from mlcd.engine.context import job_folder, work_of
from mlcd.engine.datasets import refuse_missing_packages
from mlcd.engine.secrets import keep_secrets
from mlcd.engine.spaces import space_on
from mlcd.errors import InvalidJobError, MissingExtraError, MlcdError, NotFoundError
from mlcd.platforms.tools import tools_elsewhere
from mlcd.search.options import as_searched, in_words_of, searcher_for
from mlcd.settings import Settings
from mlcd.store import Store


@contextmanager
def opened_cloud(settings: Settings, name: str, options: Mapping[str, str] | None) -> Iterator[Cloud]:
    """A cloud by name, closed at the end."""
    cloud: Cloud = registry.load("clouds", name)(settings, dict(options or {}))
    try:
        yield cloud
    finally:
        cloud.close()


def new_job_id(name: str) -> str:
    """An unused id for a job of that name."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32] or "job"
    return f"{slug}-{tokens.token_hex(3)}"


def check_job(
    settings: Settings, loaded: LoadedJob, cloud: str | None, cloud_options: Mapping[str, str] | None
) -> Check:
    """The deployments that the job would try, and what probing each would cost."""
    try:
        return _check(settings, loaded, cloud, cloud_options)
    except InvalidJobError as error:
        raise loaded.placed(in_words_of(loaded.job, error)) from error


def _check(settings: Settings, loaded: LoadedJob, cloud: str | None, cloud_options: Mapping[str, str] | None) -> Check:
    work_of(loaded.job)
    _check_names(loaded.job, cloud)
    job = as_searched(loaded.job)
    with opened_cloud(settings, cloud or job.cloud, cloud_options) as provider:
        notices = () if isinstance(provider, Recorded) else _check_program(job, provider, settings)
        space = space_on(provider, job, provider.offers())
        if isinstance(provider, Particular):
            provider.refuse_program(job, space.deployments)
        expected = provider.expected_probe(job.probe.measuring_seconds)
        seconds = tuple(expected.seconds(deployment.nodes) for deployment in space.deployments)
    pairs = zip(space.deployments, seconds, strict=True)
    usd = tuple(deployment.rental_usd(took) for deployment, took in pairs)
    return Check(job, loaded.notices + notices + space.notices, space.deployments, seconds, usd)


def submit_job(
    store: Store,
    settings: Settings,
    loaded: LoadedJob,
    cloud: str | None,
    cloud_options: Mapping[str, str] | None,
    owner: str,
    chosen_id: str | None,
) -> str:
    """Store the job and return its id; submitting a chosen id again returns the job that is there."""
    if chosen_id is not None and _is_known(store, chosen_id):
        return chosen_id
    check_job(settings, loaded, cloud, cloud_options)
    _refuse_missing_secrets(loaded)
    job_id = chosen_id or new_job_id(loaded.job.name)
    folder = job_folder(settings, job_id)
    folder.mkdir(parents=True, mode=0o700, exist_ok=chosen_id is not None)
    keep_secrets(folder, loaded.secrets)
    options = _stored_options(cloud_options, folder)
    try:
        store.add_job(_record(settings, as_searched(loaded.job), job_id, cloud or loaded.job.cloud, options, owner))
    except MlcdError:
        if chosen_id is not None and _is_known(store, job_id):
            return job_id  # the same was submitted at the same moment
        if chosen_id is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return job_id


def _record(settings: Settings, job: Job, job_id: str, cloud: str, options: dict[str, str], owner: str) -> JobRecord:
    with opened_cloud(settings, cloud, options) as provider:
        now, virtual = provider.clock.now(), not isinstance(provider.clock, SystemClock)
    return JobRecord(
        id=job_id,
        job=job,
        state=JobState.SEARCHING,
        submitted_at=now,
        cloud=cloud,
        cloud_options=options,
        budget_usd=job.budget_usd,
        deadline_at=_deadline_at(job, now),
        virtual_clock=virtual,
        owner=owner,
        started=False,
    )


def _stored_options(given: Mapping[str, str] | None, folder: Path) -> dict[str, str]:
    """The cloud's options with absolute paths; a replay keeps its own time for each job."""
    options = dict(given or {})
    if "trace" in options:
        options["trace"] = str(Path(options["trace"]).expanduser().absolute())
        options.setdefault("state", str(folder / "replay.json"))
    return options


def _deadline_at(job: Job, now: float) -> float | None:
    """On the cloud's clock, which may differ from the wall clock."""
    if job.deadline_at is not None:
        return now + (job.deadline_at - time.time())
    return None if job.deadline_seconds is None else now + job.deadline_seconds


def _is_known(store: Store, job_id: str) -> bool:
    try:
        return store.job(job_id).id == job_id
    except NotFoundError:
        return False


def _refuse_missing_secrets(loaded: LoadedJob) -> None:
    missing = [key for key in loaded.job.secret_names if key not in loaded.secrets]
    if missing:
        raise InvalidJobError(
            f"Secret '{missing[0]}' has no value.",
            f"Set it in the environment, or pass it on with --secret {missing[0]}.",
        )


def _check_names(job: Job, cloud: str | None) -> None:
    """Refuse a job that names an unknown cloud, platform, strategy or option."""
    names = {"platform": ("platforms", job.platform), "search.strategy": ("searchers", job.search.strategy)}
    if cloud is None:
        names["cloud"] = ("clouds", job.cloud)
    for key, (group, name) in names.items():
        try:
            registry.load(group, name)
        except (NotFoundError, MissingExtraError) as error:
            raise InvalidJobError(error.message, error.hint, key) from error
    if job.topology not in registry.load("platforms", job.platform).topologies:
        raise InvalidJobError(
            f"The platform '{job.platform}' has no topology '{job.topology}'.", "Leave it out.", "topology"
        )
    searcher_for(job)


def _check_program(job: Job, provider: Cloud, settings: Settings) -> tuple[str, ...]:
    """Refuse what could not start for want of files; return what else is to be known."""
    refuse_missing_packages(job)
    return _check_script(job) + _tools_elsewhere(job, provider, settings)


def _tools_elsewhere(job: Job, provider: Cloud, settings: Settings) -> tuple[str, ...]:
    """What to know of machines that nobody can look at before they are rented."""
    return () if is_this_computer(settings, provider.name) else tools_elsewhere(job)


def _check_script(job: Job) -> tuple[str, ...]:
    """Refuse a command whose script is missing; return notices: `setup` may create it, or nobody will see its steps."""
    script = missing_script(job)
    if script is None:
        silent = uncounted(job)
        return () if silent is None else (silent,)
    if job.setup.strip():
        return (f"run: '{script}' is not in the working directory now; `setup` has to make it.",)
    where = "in the working directory" if job.workdir else "there: the job has no `workdir`"
    raise InvalidJobError(
        f"'{script}' is not {where}.", "Set `workdir` to the folder of the program, or fix `run`.", "run"
    )
