"""What is worth a notification in the present state of a job. Pure: the same job gives the same answer."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from mlcd.core.job import OnNan
from mlcd.core.live import Live
from mlcd.core.notices import NotificationEvent
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.core.task import TaskKind
from mlcd.core.units import show_duration, show_usd

BUDGET_SHARE = 0.8
HANG_SHARE = 0.5
_ENDS = {
    JobState.SUCCEEDED: NotificationEvent.FINISHED,
    JobState.FAILED: NotificationEvent.FAILED,
    JobState.PAUSED: NotificationEvent.PAUSED,
}


@dataclass(frozen=True)
class Occurrence:
    """Something to notify of, once."""

    occasion: NotificationEvent
    key: str  # identifies it: a second failure has another key than the first
    message: str  # in one line


def occurrences(record: JobRecord, live: Live | None, spent_usd: float) -> list[Occurrence]:
    """All that is worth a notification now; the caller knows what was sent before."""
    found = (
        _end(record, spent_usd),
        _budget(record, spent_usd),
        _deadline(record, live),
        _hang(record, live),
        _nan(record, live),
    )
    return [each for each in found if each is not None]


def _end(record: JobRecord, spent_usd: float) -> Occurrence | None:
    occasion = _ENDS.get(record.state)
    if occasion is None or record.ended_at is None:
        return None
    took = show_duration(max(0.0, record.ended_at - record.submitted_at))
    what = {
        NotificationEvent.FINISHED: "is done",
        NotificationEvent.FAILED: "failed",
        NotificationEvent.PAUSED: "paused",
    }[occasion]
    why = "" if occasion is NotificationEvent.FINISHED else f": {_first_line(record.error)}"
    cost = f"{took} and {show_usd(spent_usd)} in all"
    return Occurrence(occasion, f"{record.ended_at!r}", f"{record.job.name} {what} ({cost}){why}")


def _budget(record: JobRecord, spent_usd: float) -> Occurrence | None:
    budget = record.budget_usd
    if budget is None or budget <= 0 or spent_usd < BUDGET_SHARE * budget or not record.state.active:
        return None
    share = f"{spent_usd / budget:.0%} of its budget ({show_usd(spent_usd)} of {show_usd(budget)})"
    return Occurrence(NotificationEvent.BUDGET, f"{budget!r}", f"{record.job.name} has spent {share}")


def _deadline(record: JobRecord, live: Live | None) -> Occurrence | None:
    """The forecast of a training at work passes the deadline."""
    if record.deadline_at is None or record.state is not JobState.TRAINING:
        return None
    if live is None or live.kind is not TaskKind.TRAINING or live.total_seconds is None:
        return None
    late = live.total_seconds - (record.deadline_at - record.submitted_at)
    if late <= 0:
        return None
    message = f"{record.job.name} is expected {show_duration(late)} after its deadline"
    return Occurrence(NotificationEvent.DEADLINE, f"{record.deadline_at!r}", message)


def _hang(record: JobRecord, live: Live | None) -> Occurrence | None:
    """A training that makes no step and will soon be restarted."""
    if record.state is not JobState.TRAINING or live is None or live.hang_seconds is None:
        return None
    if live.no_step_seconds < HANG_SHARE * live.hang_seconds:
        return None
    since = f"{record.job.name} has made no step for {show_duration(live.no_step_seconds)}"
    until = f"mlcd restarts it after {show_duration(live.hang_seconds)} without one"
    return Occurrence(NotificationEvent.HANG, f"{live.task_id}/{live.samples:.0f}", f"{since}; {until}")


def _nan(record: JobRecord, live: Live | None) -> Occurrence | None:
    """A loss that is nan or infinite, once for each attempt, also after its end."""
    if live is None or not live.nan_loss:
        return None
    value = live.metrics.get(live.nan_loss, nan)
    course = "stops" if record.job.on_nan is OnNan.STOP else "continues"
    message = f"{record.job.name}: {live.nan_loss} is {value:g}; the training {course}"
    return Occurrence(NotificationEvent.NAN, f"{live.task_id}/{live.nan_loss}", message)


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else "for an unknown reason"
