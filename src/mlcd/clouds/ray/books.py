"""What is rented of a Ray cluster, by its own books: the placement groups that mlcd has made.

The name of a placement group says all that there is to know: mlcd/<task>/<job>/<since>/<what>, each part quoted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

_PREFIX = "mlcd/"
_GONE = "REMOVED"


@dataclass(frozen=True)
class Entry:
    """One placement group of ours."""

    task_id: str
    job_id: str
    since: float
    what: str
    nodes: int = 0
    group: str = ""  # Ray's id of it

    @property
    def name(self) -> str:
        """As it stands in the books."""
        words = (self.task_id, self.job_id, f"{self.since:.3f}", self.what)
        return _PREFIX + "/".join(quote(word, safe="") for word in words)


def entries(ray: Any) -> list[Entry]:
    """All that is rented now, or asked for."""
    table = ray.util.placement_group_table()
    rows = [_read(group, row) for group, row in table.items() if row.get("state") != _GONE]
    return [row for row in rows if row is not None]


def entry_of(ray: Any, task_id: str) -> Entry | None:
    """What a task has."""
    return next((entry for entry in entries(ray) if entry.task_id == task_id), None)


def group_of(ray: Any, entry: Entry) -> Any:
    """The placement group itself."""
    return ray.util.get_placement_group(entry.name)


def actor_name(task_id: str, index: int) -> str:
    """Of the host in one of its bundles."""
    return f"{task_id}/{index}"


def _read(group: str, row: dict[str, Any]) -> Entry | None:
    name = str(row.get("name", ""))
    parts = name.removeprefix(_PREFIX).split("/")
    if not name.startswith(_PREFIX) or len(parts) != 4:
        return None
    task, job, since, what = (unquote(part) for part in parts)
    return Entry(task, job, float(since), what, len(row.get("bundles") or {}), group)
