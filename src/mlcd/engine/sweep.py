"""Find what costs money and belongs to no job at work, by asking the clouds themselves."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace

from mlcd import registry
from mlcd.clouds.base import Cloud
from mlcd.core.records import JobRecord
from mlcd.core.task import Owned
from mlcd.core.view import IncompleteSweepError, Stray, SweepProblem
from mlcd.engine.control import alive
from mlcd.errors import MlcdError, NotFoundError
from mlcd.settings import Settings
from mlcd.store import Store

OTHERS = "another computer looks after it, or did until lately (--others ends it)"
RESUMABLE = "its controller is gone (`mlcd resume` takes it over, --others ends it)"


def sweep(store: Store, settings: Settings, clouds: Iterable[str], end: bool, others: bool) -> list[Stray]:
    """The strays of these clouds, ended if asked for.

    One cloud that cannot be asked does not spare the rest: IncompleteSweepError carries what was found.
    """
    strays: list[Stray] = []
    problems: list[SweepProblem] = []
    for name in _each_alone(clouds):
        try:
            cloud: Cloud = registry.load("clouds", name)(settings, {})
            with closing(cloud):
                for found in _strays_of(store, cloud):
                    strays.append(_ended(cloud, found, problems) if end and _may_end(found, others) else found)
        except MlcdError as error:
            problems.append(SweepProblem(name, error.message, error.hint))
    if problems:
        raise IncompleteSweepError(strays, problems)
    return strays


def _each_alone(clouds: Iterable[str]) -> list[str]:
    """Clouds that a job uses together are asked one by one, each once."""
    return sorted({part.strip() for name in clouds for part in name.split("+")})


def _strays_of(store: Store, cloud: Cloud) -> list[Stray]:
    found = [(owned, _why_stray(store, owned, cloud.clock.now())) for owned in cloud.owned()]
    return [Stray(cloud.name, owned, why[0], False, needed_elsewhere=why[1]) for owned, why in found if why]


def _may_end(stray: Stray, others: bool) -> bool:
    return others or not stray.needed_elsewhere


def _ended(cloud: Cloud, stray: Stray, problems: list[SweepProblem]) -> Stray:
    """The stray, told to end; why it could not be told is noted."""
    try:
        cloud.stop(stray.owned.handle)
    except MlcdError as error:
        problems.append(SweepProblem(cloud.name, error.message, error.hint))
        return stray
    return replace(stray, ended=True)


def _why_stray(store: Store, owned: Owned, now: float) -> tuple[str, bool] | None:
    """Why nobody needs it, and whether somebody elsewhere or later may; None if somebody does now."""
    try:
        record = store.job(owned.job_id)
    except NotFoundError:
        leased = owned.leased_until is not None and owned.leased_until > now
        return (OTHERS, True) if leased else ("no job of this store started it", False)
    return _unneeded(store, record, owned, now)


def _unneeded(store: Store, record: JobRecord, owned: Owned, now: float) -> tuple[str, bool] | None:
    open_tasks = {task.id for task in store.tasks(record.id, open_only=True)}
    kept = owned.kept_until is not None and owned.kept_until > now
    if owned.task_id not in open_tasks and not kept:
        return "its task is over", False
    if not record.state.active:
        return f"its job is {record.state}", False
    return None if alive(record.controller) else (RESUMABLE, True)
