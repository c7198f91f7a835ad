"""Lists of jobs and of what they learnt, in pages."""

from __future__ import annotations

from collections.abc import Collection

from mlcd.core.listing import JobLine, Lesson, Page
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.core.trial import Trial
from mlcd.errors import UserError
from mlcd.store import Store

MOST = 500  # items of a page


def list_jobs(
    store: Store,
    owners: Collection[str] | None,
    states: Collection[JobState] | None,
    words: str,
    cursor: str | None,
    limit: int,
) -> Page[JobLine]:
    """A page of jobs, newest first."""
    limit = max(1, min(limit, MOST))
    found = store.job_lines(owners, states, words, read_cursor(cursor), limit + 1)
    more = str(found[limit - 1].number) if len(found) > limit else None
    return Page(found[:limit], more)


def read_cursor(cursor: str | None) -> int | None:
    """The number that a cursor stands for."""
    if cursor is None or cursor == "":
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 18:
        raise UserError(f"'{cursor[:40]}' is no cursor of a list.", "Take it from the page before.")
    return int(cursor)


def list_lessons(store: Store, owners: Collection[str] | None, cursor: str | None, limit: int) -> Page[Lesson]:
    """A page of what jobs learnt, newest first."""
    limit = max(1, min(limit, MOST))
    found = store.lessons(limit + 1, owners, read_cursor(cursor))
    more = str(found[limit - 1][0]) if len(found) > limit else None
    return Page([_lesson(record, trials) for _, record, trials in found[:limit]], more)


def _lesson(record: JobRecord, trials: tuple[Trial, ...]) -> Lesson:
    return Lesson(
        job_id=record.id,
        name=record.job.name,
        owner=record.owner,
        cloud=record.cloud,
        strategy=record.job.search.strategy,
        submitted_at=record.submitted_at,
        chosen=record.plan.deployment.key if record.plan else "",
        search=record.plan.search if record.plan else None,
        trials=trials,
    )
