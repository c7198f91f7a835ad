"""Find what costs money and belongs to no job at work, by asking the clouds themselves."""

from __future__ import annotations

from collections.abc import Iterable

from mlcd import registry
from mlcd.clouds.base import Cloud
from mlcd.core.records import JobRecord
from mlcd.core.task import Owned
from mlcd.core.view import Stray
from mlcd.engine.control import alive
from mlcd.errors import NotFoundError
from mlcd.settings import Settings
from mlcd.store import Store


def sweep(store: Store, settings: Settings, clouds: Iterable[str], end: bool) -> list[Stray]:
    """The strays of these clouds, ended if asked for."""
    strays = []
    for name in clouds:
        cloud: Cloud = registry.load("clouds", name)(settings, {})
        try:
            strays += [
                _handle(cloud, owned, why, end)
                for owned in cloud.owned()
                if (why := _why_stray(store, owned))
            ]
        finally:
            cloud.close()
    return strays


def _handle(cloud: Cloud, owned: Owned, why: str, end: bool) -> Stray:
    if end:
        cloud.stop(owned.handle)
    return Stray(cloud.name, owned, why, ended=end)


def _why_stray(store: Store, owned: Owned) -> str:
    """Why nobody needs it; empty if somebody does."""
    try:
        record = store.job(owned.job_id)
    except NotFoundError:
        return "no job of this store started it"
    return _why_unneeded(store, record, owned)


def _why_unneeded(store: Store, record: JobRecord, owned: Owned) -> str:
    open_tasks = {task.id for task in store.tasks(record.id, open_only=True)}
    if owned.task_id not in open_tasks:
        return "its task is over"
    if not record.state.active:
        return f"its job is {record.state}"
    return (
        ""
        if alive(record.controller)
        else f"its controller is gone (`mlcd resume {record.id}` takes it over)"
    )
