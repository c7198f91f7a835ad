"""What the user wants most, and the limits that may not be passed.

The three scenarios of the MLCD paper (section III.B) follow from it:

    1  goal: fastest                    minimise time
    2  goal: cheapest, deadline: 6h     minimise cost,  time ≤ deadline
    3  goal: fastest,  budget: 100      minimise time,  cost ≤ budget
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Aim(StrEnum):
    """What to make small."""

    FASTEST = "fastest"  # the total time
    CHEAPEST = "cheapest"  # the total cost
    BALANCED = "balanced"  # time × cost: as good as 10 % of the one is 10 % of the other


@dataclass(frozen=True)
class Goal:
    """An aim with optional limits on the totals, search and training together."""

    aim: Aim
    deadline_seconds: float | None = None  # from the moment the job was submitted
    budget_usd: float | None = None

    def value(self, seconds: float, usd: float) -> float:
        """What the aim makes small: hours, dollars, or the root of their product."""
        if self.aim is Aim.FASTEST:
            return seconds / 3600.0
        if self.aim is Aim.CHEAPEST:
            return usd
        return float((seconds / 3600.0 * usd) ** 0.5)

    def allows(self, seconds: float, usd: float) -> bool:
        """Whether these totals keep both limits."""
        return self.excess(seconds, usd) <= 1.0

    def excess(self, seconds: float, usd: float) -> float:
        """The larger share of a limit that these totals use up; above 1 a limit is passed."""
        shares = [0.0]
        if self.deadline_seconds is not None:
            shares.append(seconds / self.deadline_seconds if self.deadline_seconds > 0 else float("inf"))
        if self.budget_usd is not None:
            shares.append(usd / self.budget_usd if self.budget_usd > 0 else float("inf"))
        return max(shares)

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """Seconds and dollars that may not be passed; None: no limit."""
        return self.deadline_seconds, self.budget_usd

    @property
    def limited(self) -> bool:
        """Whether there is any limit to keep."""
        return self.deadline_seconds is not None or self.budget_usd is not None


def default_aim(deadline: bool, budget: bool) -> Aim:
    """The aim meant by someone who gave only limits."""
    if deadline:
        return Aim.CHEAPEST
    return Aim.FASTEST if budget else Aim.BALANCED
