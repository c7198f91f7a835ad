"""How a task ended, or must end: one value for all clouds, written into the task's state as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from mlcd.core.task import EndCause, Refusal, TaskState
from mlcd.errors import CloudError, MlcdError, NoCapacityError, UserError

_STATES = {
    EndCause.COMPLETED: TaskState.SUCCEEDED,
    EndCause.STOPPED: TaskState.STOPPED,
    EndCause.TIME_LIMIT: TaskState.STOPPED,
    EndCause.SPOT_NOTICE: TaskState.LOST,
    EndCause.NODE_LOST: TaskState.LOST,
    EndCause.RUNNER_LOST: TaskState.LOST,
}
_ERRORS: dict[Refusal, type[MlcdError]] = {
    Refusal.NO_CAPACITY: NoCapacityError,
    Refusal.USER: UserError,
    Refusal.CLOUD: CloudError,
}
_CAUSES = {
    Refusal.NO_CAPACITY: EndCause.NO_CAPACITY,
    Refusal.USER: EndCause.REFUSED,
    Refusal.CLOUD: EndCause.CLOUD_FAILED,
}


@dataclass(frozen=True)
class Outcome:
    """The cause decides; the reason says it in words."""

    cause: EndCause
    reason: str = ""
    exit_code: int | None = None
    node: int = 0  # the one to look at
    exit_codes: tuple[int | None, ...] = ()  # of each node
    refused: Refusal | None = None  # why it was not started, where that is no fault of the program
    hint: str = ""  # what to do about that

    @property
    def state(self) -> TaskState:
        """What becomes of the task."""
        return _STATES.get(self.cause, TaskState.FAILED)

    def with_codes(self, codes: tuple[int | None, ...]) -> Outcome:
        """This outcome with the exit codes of the nodes; where it had none, the first node's is the task's."""
        code = self.exit_code if self.exit_code is not None else next(iter(codes), None)
        return replace(self, exit_code=code, exit_codes=codes)


class Ending(Exception):
    """The task is over, or must be."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


COMPLETED = Outcome(EndCause.COMPLETED, exit_code=0)
STOPPED = Outcome(EndCause.STOPPED, "stopped")
TIME_LIMIT = Outcome(EndCause.TIME_LIMIT, "time limit")


def of_error(error: MlcdError, users: tuple[type[MlcdError], ...], began: bool) -> Outcome:
    """What was refused; `users`: errors that the user must do something about; `began`: the program has run."""
    kind = Refusal.CLOUD
    if isinstance(error, NoCapacityError):
        kind = Refusal.NO_CAPACITY
    elif isinstance(error, users):
        kind = Refusal.USER
    if began:  # too late to say that it could not be started
        return Outcome(EndCause.CRASHED, error.message, hint=error.hint)
    return Outcome(_CAUSES[kind], error.message, refused=kind, hint=error.hint)


def raise_refusal(refused: Refusal, reason: str, hint: str) -> NoReturn:
    """Raise what a runner was refused with, for whoever launches."""
    raise refusal(refused, reason, hint)


def refusal(refused: Refusal, reason: str, hint: str) -> MlcdError:
    """The error that a task was refused with."""
    return _ERRORS[refused](reason, hint)
