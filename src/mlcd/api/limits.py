"""What a resumed job changes: its state and its limits."""

from __future__ import annotations

import time
from typing import Any

from mlcd.core.jobfile.values import usd
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.core.units import parse_duration, parse_moment
from mlcd.errors import CloudError, TaskFailedError, UserError

# Exit codes of jobs that go on once somebody has fixed something: the program, the settings, or the cloud account.
FIXED_BY_HAND = (TaskFailedError.exit_code, UserError.exit_code, CloudError.exit_code)


def new_state(record: JobRecord) -> dict[str, Any]:
    """The changes that put a job at rest back to work; none for a job that is at work."""
    if record.state not in (JobState.PAUSED, JobState.STOPPED, JobState.FAILED):
        return {}
    state = JobState.SEARCHING
    if record.plan:
        state = JobState.TRAINING if record.confirmed else JobState.PLANNED
    return {
        "state": state,
        "error": "",
        "enough_seconds": None,
        "enough_usd": None,
        "exit_code": 0,
        "ended_at": None,
        "stop_asked": False,
    }


def new_limits(budget_usd: float | None, deadline: str | None, spent_usd: float, now: float) -> dict[str, float]:
    """The changes for these limits; a budget that is spent already is refused."""
    changes = {}
    if budget_usd is not None:
        _check_amount(budget_usd)
        if budget_usd <= spent_usd:
            raise UserError(f"A budget of ${budget_usd:g} is spent already: the bill is ${spent_usd:.4f}.")
        changes["budget_usd"] = budget_usd
    if deadline is not None:
        changes["deadline_at"] = _new_deadline(deadline, now)
    return changes


def _check_amount(budget_usd: float) -> None:
    """Refuse what is no amount of US dollars, as job files do."""
    try:
        usd(budget_usd)
    except ValueError as error:
        raise UserError(f"budget: {error}.", "Write for example 30.") from error


def _new_deadline(text: str, now: float) -> float:
    """A duration from now, or a clock time."""
    try:
        return now + parse_duration(text)
    except ValueError:
        pass
    try:
        return now + (parse_moment(text).timestamp() - time.time())
    except ValueError as error:
        raise UserError(f"'{text}' is no deadline.", "Write '6h', or a clock time with its zone.") from error
