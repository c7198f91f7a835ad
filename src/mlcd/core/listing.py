"""A job in one line of a list, and lists that come in pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from mlcd.core.run import JobState
from mlcd.core.study import Ledger
from mlcd.core.trial import Trial

T = TypeVar("T")


@dataclass(frozen=True)
class JobLine:
    """What a list says of a job."""

    number: int  # of the jobs of this store, in the order of submission
    id: str
    name: str
    state: JobState
    owner: str
    cloud: str
    strategy: str
    submitted_at: float
    ended_at: float | None
    budget_usd: float | None
    deadline_at: float | None
    spent_usd: float
    confirmed: bool
    error: str
    exit_code: int
    deployment: str = ""  # what it trains on, once one is chosen


@dataclass(frozen=True)
class Lesson:
    """What an earlier job learnt: what was tried, and what was chosen."""

    job_id: str
    name: str
    owner: str
    cloud: str
    strategy: str
    submitted_at: float
    chosen: str  # the deployment's key; empty: none yet
    search: Ledger | None
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class LogPage:
    """Lines of a log, and where the next ones begin."""

    task_id: str
    lines: tuple[str, ...]
    next: int  # a place in the log, for the next page
    over: bool  # nothing will be added


@dataclass(frozen=True)
class Page(Generic[T]):
    """A part of a list; the cursor asks for the next part, None: that was all."""

    items: list[T]
    next: str | None = None
