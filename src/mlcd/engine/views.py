"""A job as it is shown, read from the store."""

from __future__ import annotations

from dataclasses import replace

from mlcd.clouds.base import Cloud
from mlcd.core.live import Live
from mlcd.core.machines import Deployment
from mlcd.core.records import BillItem, JobRecord, TaskRecord
from mlcd.core.run import NOTICEABLE_SECONDS, JobState, Run
from mlcd.core.study import Belief, Ledger
from mlcd.core.task import TaskFolder, TaskKind, TaskState
from mlcd.core.trial import of_search
from mlcd.core.view import JobStory, JobView
from mlcd.engine.context import JobContext, goal_of, job_folder
from mlcd.engine.control import alive
from mlcd.engine.deliver import model_folder
from mlcd.engine.earlier_jobs import earlier_as_used
from mlcd.engine.secrets import read_secrets, redact
from mlcd.engine.spaces import space_of
from mlcd.engine.study import learnt_start, study_of
from mlcd.engine.tasks import checkpoint_folder, task_folder
from mlcd.search.expectations import expected_speeds
from mlcd.search.options import searcher_for
from mlcd.settings import Settings
from mlcd.store import Store
from mlcd.worker.checkpoints import complete_checkpoints

TAIL_BYTES = 8000
MOST_POINTS = 2000


def view_of(store: Store, settings: Settings, record: JobRecord, now: float) -> JobView:
    """How the job stands at that moment of its cloud's clock."""
    bill = store.bill(record.id)
    run = Run(store.attempts(record.id))
    made = store.trials(record.id)
    controlled = alive(record.controller)
    running = _running(store, record, now, controlled)
    unbilled = _unbilled_usd(running, bill)
    end = record.ended_at if record.ended_at is not None and not record.state.active else now
    searched_until, begun_at = _search_and_wait(record, run, end)
    model = model_folder(job_folder(settings, record.id))
    return JobView(
        record=record,
        goal=goal_of(record),
        spent=Ledger(max(0.0, end - record.submitted_at), sum(item.usd for item in bill) + unbilled),
        search=Ledger(
            max(0.0, searched_until - record.submitted_at),
            _probes_usd(bill) + (0.0 if run.attempts else unbilled),
        ),
        trials=of_search(made, 0),
        later_trials=tuple(trial for trial in made if trial.search_number > 0),
        run=run,
        bill=bill,
        live=running[0] if running else None,
        running=running,
        controlled=controlled,
        saved_samples=_saved_samples(settings, record),
        start_seconds=learnt_start(record.start_seconds, made, record.job.probe.warmup_seconds),
        model=str(model) if record.state is JobState.SUCCEEDED and model.is_dir() else "",
        waiting_seconds=begun_at - searched_until,
        stopped_seconds=run.stopped_seconds(now if record.state.active else None),
    )


def story_of(store: Store, settings: Settings, cloud: Cloud, view: JobView) -> JobStory:
    """The job with all that a report tells of it."""
    record = view.record
    context = JobContext(store, cloud, settings, record.id, "", {})
    space = space_of(context, record) if record.offers else ()
    tasks = tuple(store.tasks(record.id))
    return JobStory(
        view=view,
        tasks=tasks,
        events=tuple(store.events(record.id)),
        space=space,
        beliefs=_beliefs(context, record, space) if space else (),
        points=store.points(record.id, most=MOST_POINTS),
        metrics=store.metrics(record.id, most=MOST_POINTS),
        log_tail=_log_tail(settings, record, tasks[-1].id) if tasks else "",
    )


def _running(store: Store, record: JobRecord, now: float, controlled: bool) -> tuple[Live, ...]:
    """The tasks at work; while no controller looks at them, time and money go on by the clock and the price."""
    if not record.state.active:
        return ()
    trains = record.state is JobState.TRAINING and not record.replanning
    kind = TaskKind.TRAINING if trains else TaskKind.PROBE
    known = {live.task_id: live for live in store.lives(record.id)}
    tasks = [task for task in store.tasks(record.id, open_only=True) if task.kind is kind]
    if controlled:
        return tuple(known[task.id] for task in tasks if task.id in known)
    return tuple((known.get(task.id) or _begun(task)).at(now) for task in tasks)


def _begun(task: TaskRecord) -> Live:
    """A task of which nothing was seen yet."""
    return Live(
        task_id=task.id,
        kind=task.kind,
        state=TaskState.STARTING,
        deployment=task.deployment,
        seconds=0.0,
        usd=0.0,
        samples=0.0,
        samples_per_second=0.0,
        left_seconds=None,
        total_seconds=None,
        total_usd=None,
        seen_at=task.intended_at,
    )


def _unbilled_usd(running: tuple[Live, ...], bill: tuple[BillItem, ...]) -> float:
    """What the running tasks have cost so far and is not on the bill yet."""
    billed: dict[str, float] = {}
    for item in bill:
        billed[item.task_id] = billed.get(item.task_id, 0.0) + item.usd
    return sum(max(0.0, live.usd - billed.get(live.task_id, 0.0)) for live in running)


def _saved_samples(settings: Settings, record: JobRecord) -> float:
    """In the newest checkpoint, whose content is not read for this."""
    if record.state is JobState.SUCCEEDED:
        return 0.0
    saved = complete_checkpoints(checkpoint_folder(job_folder(settings, record.id)))
    return next((each.facts.samples for each in saved if not each.refused_by), 0.0)


def _search_and_wait(record: JobRecord, run: Run, end: float) -> tuple[float, float]:
    """When the search was over, and when the wait for the training was; a moment's wait is none."""
    begun_at = run.attempts[0].started_at if run.attempts else end
    planned_at = record.submitted_at + record.plan.search.seconds if record.plan else begun_at
    return (planned_at if begun_at - planned_at >= NOTICEABLE_SECONDS else begun_at), begun_at


def _probes_usd(bill: tuple[BillItem, ...]) -> float:
    return sum(item.usd for item in bill if item.kind is TaskKind.PROBE)


def _beliefs(context: JobContext, record: JobRecord, space: tuple[Deployment, ...]) -> tuple[tuple[Belief, ...], ...]:
    """What was expected after each trial of the plan's search, in order; of one without any, by stored models."""
    searcher, earlier = searcher_for(record.job), earlier_as_used(context.store, record)
    study = study_of(context, replace(record, changes=()), space)
    if not study.trials:
        known = expected_speeds(searcher, earlier.with_jobs(study, ()))
        stored = tuple(belief for belief in known if belief.modelled)
        return (stored,) if stored else ()
    return tuple(
        expected_speeds(searcher, earlier.with_jobs(replace(study, trials=trials), trials))
        for trials in (study.trials[:count] for count in range(1, len(study.trials) + 1))
    )


def _log_tail(settings: Settings, record: JobRecord, task_id: str) -> str:
    log = TaskFolder(task_folder(job_folder(settings, record.id), task_id)).log()
    if not log.is_file():
        return ""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - TAIL_BYTES))
        tail = stream.read().decode(errors="replace")
    return redact(tail, read_secrets(job_folder(settings, record.id)))
