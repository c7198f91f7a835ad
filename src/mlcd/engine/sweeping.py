"""Find what costs money and belongs to no job at work, by asking the clouds themselves."""

from __future__ import annotations

from collections.abc import Iterable

from mlcd import registry
from mlcd.clouds.base import Cloud
from mlcd.core.records import JobRecord
from mlcd.core.task import Owned
from mlcd.core.view import Stray
from mlcd.engine.control import alive
from mlcd.errors import CloudError, MlcdError, NotFoundError
from mlcd.settings import Settings
from mlcd.store import Store

OTHERS = "another computer looks after it, or did until lately (--others ends it)"
RESUMABLE = "its controller is gone (`mlcd resume` takes it over, --others ends it)"


def sweep(store: Store, settings: Settings, clouds: Iterable[str], end: bool, others: bool) -> list[Stray]:
    """The strays of these clouds, ended if asked for; one cloud that cannot be asked does not spare the rest."""
    strays: list[Stray] = []
    problems: list[MlcdError] = []
    for name in clouds:
        try:
            strays += _sweep_one(store, registry.load("clouds", name)(settings, {}), end, others)
        except MlcdError as error:
            problems.append(error)
    if problems:
        seen = f" Of what else was asked: {len(strays)} found, {sum(stray.ended for stray in strays)} told to end."
        raise CloudError(problems[0].message + seen, problems[0].hint) from problems[0]
    return strays


def _sweep_one(store: Store, cloud: Cloud, end: bool, others: bool) -> list[Stray]:
    try:
        found = [(owned, _why_stray(store, owned, cloud.clock.now())) for owned in cloud.owned()]
        return [
            _handle(cloud, owned, why, end and (others or why not in (OTHERS, RESUMABLE)))
            for owned, why in found
            if why
        ]
    finally:
        cloud.close()


def _handle(cloud: Cloud, owned: Owned, why: str, end: bool) -> Stray:
    if end:
        cloud.stop(owned.handle)
    return Stray(cloud.name, owned, why, ended=end)


def _why_stray(store: Store, owned: Owned, now: float) -> str:
    """Why nobody needs it; empty if somebody does."""
    try:
        record = store.job(owned.job_id)
    except NotFoundError:
        leased = owned.leased_until is not None and owned.leased_until > now
        return OTHERS if leased else "no job of this store started it"
    return _why_unneeded(store, record, owned)


def _why_unneeded(store: Store, record: JobRecord, owned: Owned) -> str:
    open_tasks = {task.id for task in store.tasks(record.id, open_only=True)}
    if owned.task_id not in open_tasks:
        return "its task is over"
    if not record.state.active:
        return f"its job is {record.state}"
    return "" if alive(record.controller) else RESUMABLE
