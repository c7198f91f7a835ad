"""Every error that mlcd raises on purpose.

MlcdError(message, hint)          what happened, to which thing, and what to do next
├── UserError                     something to change in the job, the command or the settings
│   ├── InvalidJobError           a job file that cannot be understood: file, line, key
│   ├── NotFoundError             no such job, cloud, strategy, workload …
│   ├── MissingExtraError         an optional package is needed; the hint is its install line
│   ├── GoalUnreachableError      no deployment can keep the deadline or the budget; names the nearest
│   ├── UnfitDeploymentError      the job cannot run on this deployment, by what it says itself; another may do
│   ├── AllowanceError            the month's budget of an account or its team does not allow it
│   ├── NotAllowedError           who asks may not do this, or has not signed in
│   └── TooManyRequestsError      ask again a little later
├── CloudError                    the outside world said no
│   └── NoCapacityError           not enough machines of this kind now
├── TaskFailedError               the user's program failed; carries the end of its log
├── LimitReachedError             a run stopped itself with a checkpoint before a limit was passed
│   ├── BudgetExhaustedError
│   └── DeadlineMissedError
├── StoreError                    the database cannot be read or written
└── ServerError                   an mlcd server cannot be reached, or failed
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE = 0.6  # what is less alike is another word: 'quickest' does not mean 'cheapest'


class MlcdError(Exception):
    """What happened, with a hint that says what to do next."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UserError(MlcdError):
    """Something that the user can change."""

    exit_code = 2


class InvalidJobError(UserError):
    """A job that cannot be understood; key: what in it is to blame, with dots."""

    def __init__(self, message: str, hint: str = "", key: str = "") -> None:
        super().__init__(message, hint)
        self.key = key


class NotFoundError(UserError):
    """Nothing goes by that name."""

    exit_code = 102


class MissingExtraError(UserError):
    """An optional package is not installed."""

    exit_code = 1


class GoalUnreachableError(UserError):
    """No deployment can keep the deadline or the budget; carries the limits that would do, where these are known."""

    exit_code = 106

    def __init__(
        self,
        message: str,
        hint: str = "",
        deadline_seconds: float | None = None,
        budget_usd: float | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.deadline_seconds = deadline_seconds
        self.budget_usd = budget_usd


class UnfitDeploymentError(UserError):
    """The job cannot run on this deployment, whatever is tried; another may do."""


class AllowanceError(UserError):
    """The month's budget of an account or its team does not allow it."""

    exit_code = 104


class NotAllowedError(UserError):
    """Who asks may not do this, or has not signed in."""


class TooManyRequestsError(UserError):
    """Ask again a little later."""


class CloudError(MlcdError):
    """The cloud refused or failed."""


class NoCapacityError(CloudError):
    """The cloud has not enough machines of this kind now."""


class TaskFailedError(MlcdError):
    """The user's program failed."""

    exit_code = 100

    def __init__(self, message: str, hint: str = "", log_tail: str = "") -> None:
        super().__init__(message, hint)
        self.log_tail = log_tail


class LimitReachedError(MlcdError):
    """The run stopped itself before a limit was passed."""


class BudgetExhaustedError(LimitReachedError):
    """The budget does not allow the run to go on."""

    exit_code = 104


class DeadlineMissedError(LimitReachedError):
    """The deadline does not allow the run to go on."""

    exit_code = 105


class StoreError(MlcdError):
    """The database cannot be read or written."""


class ServerError(MlcdError):
    """An mlcd server cannot be reached, or failed."""


def error_data(error: MlcdError) -> dict[str, object]:
    """An error as plain data; its class is named by the nearest one of this module."""
    kind = next(each.__name__ for each in type(error).__mro__ if each.__module__ == __name__)
    fields = {"type": kind, "message": error.message, "hint": error.hint, "exit_code": error.exit_code}
    tail = {"log_tail": error.log_tail} if isinstance(error, TaskFailedError) else {}
    return {"error": {**fields, **tail}}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint naming the nearest known word, or listing what there is."""
    choices = sorted(known)
    if near := nearest(word, choices):
        return f"Did you mean '{near}'?"
    return f"Known: {', '.join(choices)}." if choices else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant; empty: none is near."""
    choices = sorted(known)
    begun = [choice for choice in choices if len(word) > 1 and choice.startswith(word)]
    near = begun or difflib.get_close_matches(word, choices, n=1, cutoff=_ALIKE)
    return near[0] if near else ""
