"""Who uses a server: accounts, their teams, what they sign in with, and what they did."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What an account may do."""

    VIEWER = "viewer"  # looks at the jobs of its team and changes nothing
    USER = "user"  # sees and steers what is its own
    ADMIN = "admin"  # sees and steers everything, and manages accounts


@dataclass(frozen=True)
class Account:
    """Someone who may sign in. Never deleted, so that a name is never given to somebody else."""

    name: str
    role: Role
    team: str
    created_at: float
    budget_usd: float | None = None  # a month; None: no limit of its own
    disabled: bool = False
    has_password: bool = False
    subject: str = ""  # who it is at the identity provider; empty: nobody there


@dataclass(frozen=True)
class Team:
    """Accounts that share a budget."""

    name: str
    budget_usd: float | None = None  # a month, of all members together


@dataclass(frozen=True)
class Token:
    """A way in: an API token or a session. What it is made of is known to its owner alone."""

    id: str
    account: str
    label: str
    created_at: float
    expires_at: float | None = None
    session: bool = False


@dataclass(frozen=True)
class Entry:
    """A line of the audit log."""

    number: int
    at: float
    account: str
    action: str
    thing: str
    detail: str = ""
    address: str = ""


@dataclass(frozen=True)
class Upload:
    """Code or data that someone sent; the id stands for who sent it, its name and its content."""

    id: str
    account: str
    name: str
    bytes: int
    at: float  # when it was last sent or used


@dataclass(frozen=True)
class Allowance:
    """How a monthly budget stands."""

    whose: str  # "ada", or "team red"
    budget_usd: float | None
    spent_usd: float  # this month
    committed_usd: float  # what jobs at work may still spend

    @property
    def left_usd(self) -> float | None:
        """What a new job may have; None: any amount."""
        if self.budget_usd is None:
            return None
        return max(0.0, self.budget_usd - self.spent_usd - self.committed_usd)
