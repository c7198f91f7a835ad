"""The life of a job, step by step, whoever started it and however often it was interrupted.

    searching → plan → (accepted?) → training → model

Run as `python -m mlcd.engine.controller JOB LOCK_FD`, it is the detached process behind `mlcd run`.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import IO, Any

from mlcd import registry
from mlcd.clouds.base import Cloud
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.core.units import show_duration, show_usd
from mlcd.engine.context import JobContext, job_folder
from mlcd.engine.control import controlling
from mlcd.engine.monitor import observed
from mlcd.engine.search import open_search
from mlcd.engine.secrets import forget_secrets, read_secrets, redact, scrub_logs
from mlcd.engine.stop import StopAskedError, end_task
from mlcd.engine.training import Training
from mlcd.errors import GoalUnreachableError, LimitReachedError, MlcdError, TaskFailedError
from mlcd.settings import Settings, read_settings
from mlcd.store import LostControlError, Store, open_store

CANCELLED = 103


def drive(store: Store, settings: Settings, job_id: str, starting: IO[bytes] | None = None) -> JobRecord:
    """Take the job as far as it goes now, unless another controller is at work on it.

    Who resumes it while this controller is about to leave finds one at work and starts no other: look once more.
    `starting` is closed once it is known who drives the job.
    """
    while _drive_to_rest(store, settings, job_id, starting) and store.job(job_id).needs_controller:
        pass
    return store.job(job_id)


def _drive_to_rest(store: Store, settings: Settings, job_id: str, starting: IO[bytes] | None) -> bool:
    """Be the job's controller until it rests; whether that was to be had."""
    with observed(store, settings, job_id) as begin, controlling(store, job_id) as token:
        if starting is not None:
            starting.close()
        if token is None:
            return False
        begin()
        record = store.job(job_id)
        cloud = open_cloud(settings, record)
        try:
            context = JobContext(store, cloud, settings, job_id, token, read_secrets(job_folder(settings, job_id)))
            _drive(context)
        finally:
            cloud.close()
    return True


def open_cloud(settings: Settings, record: JobRecord) -> Cloud:
    """The cloud that the job lives on."""
    cloud: Cloud = registry.load("clouds", record.cloud)(settings, record.cloud_options)
    return cloud


def _drive(context: JobContext) -> JobRecord:
    """Step after step until the job rests; every way out leaves nothing running."""
    steps: dict[JobState, Callable[[JobContext], JobRecord]] = {
        JobState.SEARCHING: _search,
        JobState.PLANNED: _await_consent,
        JobState.TRAINING: _train,
    }
    try:
        record = context.load_record()
        while record.state in steps:
            if record.stop_asked:
                raise StopAskedError
            before = record.state
            record = steps[before](context)
            if record.state is before:
                break
        return record
    except StopAskedError:
        return _rest(context, JobState.STOPPED, "Stopped by the user", CANCELLED)
    except LostControlError:
        raise
    except MlcdError as error:
        state = JobState.PAUSED if isinstance(error, LimitReachedError) else JobState.FAILED
        return _rest(context, state, _in_full(error), error.exit_code, **_enough(error))
    except Exception:  # a bug of ours must not leave a job that costs money and says nothing
        traceback.print_exc()
        return _rest(context, JobState.FAILED, f"mlcd itself failed; see {context.folder / 'controller.log'}", 1)


def _search(context: JobContext) -> JobRecord:
    plan = open_search(context).run()
    forecast = f"{show_duration(plan.forecast.seconds)} and {show_usd(plan.forecast.usd)}"
    context.add_event("plan", f"Chosen: {plan.deployment} (training takes about {forecast}). {plan.reason}")
    return context.change(plan=plan, state=JobState.PLANNED)


def _await_consent(context: JobContext) -> JobRecord:
    record = context.load_record()
    return context.change(state=JobState.TRAINING) if record.confirmed else record


def _train(context: JobContext) -> JobRecord:
    training = Training(context)
    model = training.run()
    scrub_logs(context.folder, context.secrets)
    forget_secrets(context.folder)
    context.add_event("state", f"Done. The model is in {model}" if model else "Done.")
    return context.change(state=JobState.SUCCEEDED, ended_at=training.ended_at, error="", exit_code=0)


def _rest(context: JobContext, state: JobState, why: str, exit_code: int, **limits: float | None) -> JobRecord:
    """End what still runs, and say why the job goes no further."""
    end_open_tasks(context)
    text = redact(why, context.secrets)
    context.add_event("state", f"{state.value.capitalize()}: {text}")
    changes: dict[str, Any] = {
        "state": state,
        "error": text,
        "exit_code": exit_code,
        "ended_at": context.now(),
    }
    return context.change(stop_asked=False, **changes, **limits)


def _enough(error: MlcdError) -> dict[str, float | None]:
    """The limits with which the job could go on, where the error knows them."""
    if not isinstance(error, GoalUnreachableError):
        return {}
    return {"enough_seconds": error.deadline_seconds, "enough_usd": error.budget_usd}


def end_open_tasks(context: JobContext) -> None:
    """Stop every task of the job that may still run, and record what it cost."""
    for task in context.store.tasks(context.job_id, open_only=True):
        handle = task.handle or _handle_of(context, task.id)
        if handle is not None:
            status = end_task(context, handle, context.load_record().job.checkpoint.grace_seconds)
            context.store.put_charges(context.job_id, task.id, task.kind, status.charges)
        context.store.end_task(task.id, context.now())


def _handle_of(context: JobContext, task_id: str) -> str | None:
    """What a controller launched that was killed before it could write the handle down."""
    return next((owned.handle for owned in context.cloud.owned() if owned.task_id == task_id), None)


def _in_full(error: MlcdError) -> str:
    tail = error.log_tail if isinstance(error, TaskFailedError) else ""
    parts = [error.message, error.hint, f"The end of the log:\n{tail}" if tail else ""]
    return "\n".join(part for part in parts if part)


def main(job_id: str, starting: int) -> int:
    """Drive one job to its next rest; `starting` is the lock that keeps others from starting a controller meanwhile."""
    settings = read_settings()
    store = open_store(settings.store_url)
    try:
        return drive(store, settings, job_id, os.fdopen(starting, "rb")).exit_code
    except LostControlError:
        return 0
    finally:
        store.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
