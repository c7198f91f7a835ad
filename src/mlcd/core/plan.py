"""The chosen deployment with its forecast and the reasons: shown before the training costs money."""

from __future__ import annotations

from dataclasses import dataclass

from mlcd.core.goal import Goal
from mlcd.core.machines import Deployment
from mlcd.core.study import Ledger


@dataclass(frozen=True)
class Forecast:
    """Time and money that the training would take, with its spread (95 %)."""

    seconds: float
    low_seconds: float
    high_seconds: float
    usd: float
    low_usd: float
    high_usd: float


@dataclass(frozen=True)
class Alternative:
    """Another deployment that was tried or believed in, and why it was not taken."""

    deployment: Deployment
    forecast: Forecast | None
    why_not: str


@dataclass(frozen=True)
class Plan:
    """What will be done, what it is expected to cost, and why."""

    deployment: Deployment
    forecast: Forecast  # of the training alone
    search: Ledger  # what the search has cost
    reason: str
    alternatives: tuple[Alternative, ...] = ()
    goal: Goal | None = None  # that it was made for; None: an earlier version did not write it down
    trained: float = 0.0  # samples that the probes have trained for good, and the forecast leaves out

    @property
    def total(self) -> Ledger:
        """Search and training together."""
        return Ledger(self.search.seconds + self.forecast.seconds, self.search.usd + self.forecast.usd)
