"""What is rented of a Ray cluster: the placement groups that mlcd has made.

The name of a placement group says all that there is to know: mlcd/<task>/<job>/<since>/<what>, each part quoted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

_PREFIX = "mlcd/"
_GONE = "REMOVED"


@dataclass(frozen=True)
class Group:
    """One placement group of ours."""

    task_id: str
    job_id: str
    since: float
    what: str
    nodes: int = 0
    id: str = ""  # Ray's own

    @property
    def name(self) -> str:
        """Its name at Ray."""
        words = (self.task_id, self.job_id, f"{self.since:.3f}", self.what)
        return _PREFIX + "/".join(quote(word, safe="") for word in words)


def groups(ray: Any) -> list[Group]:
    """All that is rented now, or asked for."""
    table = ray.util.placement_group_table()
    rows = [_read(id_, row) for id_, row in table.items() if row.get("state") != _GONE]
    return [row for row in rows if row is not None]


def group_of(ray: Any, task_id: str) -> Group | None:
    """What a task has."""
    return next((group for group in groups(ray) if group.task_id == task_id), None)


def placement_group(ray: Any, group: Group) -> Any:
    """Ray's object for it."""
    return ray.util.get_placement_group(group.name)


def actor_name(task_id: str, index: int) -> str:
    """Of the host in one of its bundles."""
    return f"{task_id}/{index}"


def _read(id_: str, row: dict[str, Any]) -> Group | None:
    name = str(row.get("name", ""))
    parts = name.removeprefix(_PREFIX).split("/")
    if not name.startswith(_PREFIX) or len(parts) != 4:
        return None
    task, job, since, what = (unquote(part) for part in parts)
    return Group(task, job, float(since), what, len(row.get("bundles") or {}), id_)
