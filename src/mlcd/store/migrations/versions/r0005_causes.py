"""Attempts know the cause of their end, and trials which search they belong to: both were read from sentences and counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

Doc = dict[str, Any]

_JOBS = sa.table("jobs", sa.column("number"), sa.column("id"), sa.column("doc"))
_TRIALS = sa.table("trials", sa.column("number"), sa.column("job_id"), sa.column("doc"))
_ATTEMPTS = sa.table("attempts", sa.column("job_id"), sa.column("task_id"), sa.column("doc"))
_AT_ONCE = 1000
_SENTENCES = {  # how an attempt ended → what its sentence has in it → the cause; the last one fits every other
    "finished": {
        r"reached its target": "target reached",
        r"then the program failed": "crashed",
        "": "completed",
    },
    "moved": {r"^looking for machines again$": "replan", "": "move"},
    "lost": {
        r"^no capacity": "no capacity",
        r"^spot notice|^its machine was told to go": "spot notice",
        "": "node lost",
    },
    "failed": {
        r"^no step for too long": "hung",
        r"^each rank trains the same for itself": "work not shared",
        r"(?i)out of memory": "out of memory",
        r"no space left": "disk full",
        "": "crashed",
    },
    "stopped": {
        r"time limit": "time limit",
        r"of the budget of": "budget",
        r"^the deadline \(": "deadline",
        r" is -?(nan|inf)\b|^probe \d+ did all the work": "nan loss",
        "": "stopped",
    },
}


def upgrade() -> None:
    """To this revision."""
    connection = op.get_bind()
    for row in _rows(connection):
        job = json.loads(row.doc)
        _change_trials(connection, row.id, [each["trials"] for each in job.get("changes", ())], job.get("forgiven", 0))
        _change_attempts(connection, row.id)
        if job.get("changes") or job.get("forgiven"):
            _write(connection, _JOBS, _JOBS.c.number == row.number, _changed_job(job))


def _rows(connection: sa.Connection) -> Iterator[Any]:
    """The jobs, a thousand at a time."""
    query, last = sa.select(_JOBS).order_by(_JOBS.c.number).limit(_AT_ONCE), 0
    while rows := connection.execute(query.where(_JOBS.c.number > last)).all():
        yield from rows
        last = rows[-1].number


def _changed_job(job: Doc) -> Doc:
    changes = [{key: each[key] for key in each if key != "trials"} for each in job.get("changes", ())]
    fixes = {"changes": changes, "fixes": int(job.get("forgiven", 0) > 0)}
    return {key: value for key, value in job.items() if key != "forgiven"} | fixes


def _change_trials(connection: sa.Connection, job_id: str, begins: list[int], forgiven: int) -> None:
    """Number the searches: each began after so many trials. Faults before the last fix were those of so many trials."""
    if not begins and not forgiven:
        return
    query = sa.select(_TRIALS).where(_TRIALS.c.job_id == job_id).order_by(_TRIALS.c.number)
    for index, row in enumerate(connection.execute(query).all()):
        facts = {
            "search_number": sum(begin <= index for begin in begins),
            "fixes": int(0 < forgiven <= index),
        }
        _write(connection, _TRIALS, _TRIALS.c.number == row.number, json.loads(row.doc) | facts)


def _change_attempts(connection: sa.Connection, job_id: str) -> None:
    for row in connection.execute(sa.select(_ATTEMPTS).where(_ATTEMPTS.c.job_id == job_id)).all():
        attempt = json.loads(row.doc)
        if attempt.get("end") is not None:
            same = (_ATTEMPTS.c.job_id == job_id) & (_ATTEMPTS.c.task_id == row.task_id)
            _write(connection, _ATTEMPTS, same, attempt | _cause(attempt["end"], attempt.get("why", "")))


def _cause(end: str, why: str) -> Doc:
    cause = next(cause for sentence, cause in _SENTENCES[end].items() if re.search(sentence, why))
    code = re.search(r"exit code (\d+)", why)
    return {"cause": cause, "exit_code": int(code[1]) if code else None}


def _write(connection: sa.Connection, table: sa.TableClause, which: sa.ColumnElement[bool], doc: Doc) -> None:
    connection.execute(sa.update(table).where(which).values(doc=json.dumps(doc, ensure_ascii=False)))
