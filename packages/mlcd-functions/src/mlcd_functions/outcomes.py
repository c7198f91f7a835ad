"""What becomes of a task, from what its functions have reported. Pure but for reading the log that a diagnosis rests on.

Wait        go on
Restart     a new generation from the newest checkpoint; these functions are invoked anew, the others stay
Outcome     the task is over
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlcd.clouds.tasks.diagnosis import diagnose
from mlcd.clouds.tasks.outcome import COMPLETED, STOPPED, TIME_LIMIT, Outcome
from mlcd.clouds.tasks.programs import KILLED
from mlcd.core.task import EndCause, Refusal
from mlcd_functions.files import Invocation

_FULL_SHARE = 0.9  # of its memory: a program killed with that much was killed for it


@dataclass(frozen=True)
class Wait:
    """Nothing to do."""


@dataclass(frozen=True)
class Restart:
    """Start the programs anew."""

    ranks: tuple[int, ...]  # to be invoked anew
    why: str
    losses: int = 0  # functions that failed, were lost or straggled; 0: their time was up


@dataclass(frozen=True)
class Situation:
    """All that counts."""

    invocations: Sequence[Invocation]
    now: float
    memory_mb: float
    lost_seconds: float  # a function that gives no sign for so long is lost
    log: Callable[[int], Path]  # of a rank, as far as it came home
    settle_seconds: float  # after a program has failed: others may show that they are the cause
    store_lives: bool = True


def decide(situation: Situation) -> Wait | Restart | Outcome:
    """The first of these that applies."""
    full = [invocation for invocation in situation.invocations if is_full(invocation, situation.memory_mb)]
    if full:
        return _diagnosis(situation, full[0], KILLED, kernel_killed=True)
    return (
        _refusal(situation)
        or _limit(situation)
        or _losses(situation)
        or _store_loss(situation)
        or _failures(situation)
        or _ends(situation)
        or Wait()
    )


def is_full(invocation: Invocation, memory_mb: float) -> bool:
    """Whether it ended for want of memory."""
    killed = invocation.exit_code == KILLED and not invocation.asked
    return invocation.full or (killed and invocation.memory_mb >= _FULL_SHARE * memory_mb)


def is_lost(invocation: Invocation, now: float, lost_seconds: float) -> bool:
    """Whether its function, or its program, was ended from outside, or gives no sign of life."""
    silent = not invocation.ended and now - invocation.reported_at > lost_seconds
    killed = invocation.exit_code == KILLED and not invocation.asked
    return silent or killed or bool(invocation.error or invocation.problem)


def _refusal(situation: Situation) -> Outcome | None:
    """A function that may not write to the object store: another one would not be allowed to, either."""
    refused = [invocation for invocation in situation.invocations if invocation.refused]
    if not refused:
        return None
    why = f"the functions may not write to the object store: {refused[0].refused}"
    hint = "`mlcd check functions` says what their role needs."
    return Outcome(EndCause.REFUSED, why, node=refused[0].rank, refused=Refusal.USER, hint=hint)


def _limit(situation: Situation) -> Outcome | None:
    limited = [invocation for invocation in situation.invocations if invocation.asked == "limit"]
    return TIME_LIMIT if limited else None


def _losses(situation: Situation) -> Restart | None:
    lost = [
        invocation for invocation in situation.invocations if is_lost(invocation, situation.now, situation.lost_seconds)
    ]
    if not lost:
        return None
    ranks = {invocation.rank for invocation in lost} | {
        invocation.rank for invocation in situation.invocations if invocation.ended
    }
    names = ", ".join(f"{invocation.rank} ({_how(invocation)})" for invocation in lost)
    return Restart(tuple(sorted(ranks)), f"lost: rank {names}", losses=len(lost))


def _store_loss(situation: Situation) -> Restart | None:
    """Nobody needs to wait for programs to find out that the store is gone, which takes their timeout with a machine that is silent."""
    if situation.store_lives or any(invocation.ended or invocation.asked for invocation in situation.invocations):
        return None
    return Restart((), "the parameter store was lost", losses=1)


def _failures(situation: Situation) -> Restart | Outcome | Wait | None:
    """Programs that ended badly by themselves: for want of another rank or of the store, or of their own fault."""
    failed = [invocation for invocation in situation.invocations if _failed(invocation)]
    if not failed:
        return None
    ended = {invocation.rank for invocation in situation.invocations if invocation.ended}
    if any(invocation.asked == "time" for invocation in situation.invocations):
        return Restart(tuple(sorted(ended)), "the time of a function was up")
    if not situation.store_lives or any(invocation.sync_error == "StoreLost" for invocation in failed):
        return Restart(tuple(sorted(ended)), "the parameter store was lost", losses=1)
    missing = stragglers(failed)
    if missing:
        names = ", ".join(map(str, sorted(missing)))
        return Restart(tuple(sorted(ended | missing)), f"straggling: rank {names}", losses=len(missing))
    if min(situation.now - invocation.reported_at for invocation in failed) < situation.settle_seconds:
        return Wait()
    return _blame(situation, failed[0])


def _ends(situation: Situation) -> Restart | Outcome | None:
    if not all(invocation.ended for invocation in situation.invocations):
        return None
    if any(invocation.asked == "time" for invocation in situation.invocations):
        ranks = tuple(invocation.rank for invocation in situation.invocations)
        return Restart(ranks, "the time of the functions was up")
    if any(invocation.asked == "stop" for invocation in situation.invocations):
        return STOPPED
    return COMPLETED


def stragglers(failed: Sequence[Invocation]) -> set[int]:
    """Ranks that others have waited for too long; they have not failed themselves."""
    named = {rank for invocation in failed for rank in invocation.missing}
    return named - {invocation.rank for invocation in failed}


def _failed(invocation: Invocation) -> bool:
    return invocation.phase in ("failed", "ended", "setup") and bool(invocation.exit_code) and not invocation.asked


def _blame(situation: Situation, invocation: Invocation) -> Outcome:
    if invocation.sync_error == "StoreFull":
        reason = (
            "the parameter store is full; raise the setting functions.store_memory_mb, "
            "or give the store that functions.parameters names more memory"
        )
        return Outcome(EndCause.CRASHED, reason, invocation.exit_code, invocation.rank)
    return _diagnosis(situation, invocation, invocation.exit_code or 0, kernel_killed=False)


def _diagnosis(situation: Situation, invocation: Invocation, code: int, kernel_killed: bool) -> Outcome:
    what = "the program" if invocation.running_at is not None else "setup"
    return diagnose(code, invocation.rank, situation.log(invocation.rank), what, kernel_killed)


def _how(invocation: Invocation) -> str:
    if invocation.error or invocation.problem:
        return invocation.error or invocation.problem
    return "killed" if invocation.exit_code == KILLED else "no sign of life"
