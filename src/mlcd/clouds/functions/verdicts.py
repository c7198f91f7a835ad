"""What becomes of a task, from what its functions have reported. Pure.

Wait      go on
Again     a new generation from the newest checkpoint; these functions are invoked anew, the others stay
Finish    the task is over
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mlcd.clouds.functions.files import Stint
from mlcd.core.task import Refusal, TaskState

OUT_OF_MEMORY = "out of memory"
_KILLED = 137
_FULL_SHARE = 0.9  # of its memory: a program killed with that much was killed for it
_MISSING = re.compile(r"Nothing was heard of rank ([\d, ]+) for")
_STORE_FULL = re.compile(r"\bStoreFull\b")
_STORE_LOST = re.compile(r"\bStoreLost\b")


@dataclass(frozen=True)
class Wait:
    """Nothing to do."""


@dataclass(frozen=True)
class Again:
    """Start the programs anew."""

    ranks: tuple[int, ...]  # to be invoked anew
    why: str
    losses: int = 0  # functions that failed, were lost or straggled; 0: their time was up


@dataclass(frozen=True)
class Finish:
    """It is over."""

    state: TaskState
    reason: str = ""
    exit_code: int | None = None
    rank: int = 0
    refused: Refusal | None = None  # why it could not be started, where that is no fault of the program
    hint: str = ""


@dataclass(frozen=True)
class Scene:
    """All that counts."""

    stints: Sequence[Stint]
    now: float
    memory_mb: float
    lost_seconds: float  # a function that gives no sign for so long is lost
    settle_seconds: float  # after a program has failed: others may show that they are the cause
    tails: Sequence[str] = ()  # the end of each rank's log
    store_lives: bool = True


def decide(scene: Scene) -> Wait | Again | Finish:
    """The first of these that applies."""
    full = [stint for stint in scene.stints if is_full(stint, scene.memory_mb)]
    if full:
        return Finish(TaskState.FAILED, OUT_OF_MEMORY, _KILLED, full[0].rank)
    return _refusal(scene) or _limit(scene) or _losses(scene) or _failures(scene) or _ends(scene) or Wait()


def is_full(stint: Stint, memory_mb: float) -> bool:
    """Whether it ended for want of memory."""
    killed = stint.exit_code == _KILLED and not stint.asked
    return stint.full or (killed and stint.memory_mb >= _FULL_SHARE * memory_mb)


def is_lost(stint: Stint, now: float, lost_seconds: float) -> bool:
    """Whether its function, or its program, was ended from outside, or gives no sign of life."""
    silent = not stint.ended and now - stint.heard_at > lost_seconds
    killed = stint.exit_code == _KILLED and not stint.asked
    return silent or killed or bool(stint.error or stint.problem)


def _refusal(scene: Scene) -> Finish | None:
    """A function that may not write to the object store: another one would not be allowed to, either."""
    refused = [stint for stint in scene.stints if stint.refused]
    if not refused:
        return None
    why = f"the functions may not write to the object store: {refused[0].refused}"
    hint = "`mlcd check functions` says what their role needs."
    return Finish(TaskState.FAILED, why, rank=refused[0].rank, refused=Refusal.USER, hint=hint)


def _limit(scene: Scene) -> Finish | None:
    limited = [stint for stint in scene.stints if stint.asked == "limit"]
    return Finish(TaskState.STOPPED, "time limit") if limited else None


def _losses(scene: Scene) -> Again | None:
    lost = [stint for stint in scene.stints if is_lost(stint, scene.now, scene.lost_seconds)]
    if not lost:
        return None
    ranks = {stint.rank for stint in lost} | {stint.rank for stint in scene.stints if stint.ended}
    names = ", ".join(f"{stint.rank} ({_how(stint)})" for stint in lost)
    return Again(tuple(sorted(ranks)), f"lost: rank {names}", losses=len(lost))


def _failures(scene: Scene) -> Again | Finish | Wait | None:
    """Programs that ended badly by themselves: for want of another rank or of the store, or of their own fault."""
    failed = [stint for stint in scene.stints if _failed(stint)]
    if not failed:
        return None
    ended = {stint.rank for stint in scene.stints if stint.ended}
    if any(stint.asked == "time" for stint in scene.stints):
        return Again(tuple(sorted(ended)), "the time of a function was up")
    if not scene.store_lives or any(_STORE_LOST.search(_tail(stint, scene)) for stint in failed):
        return Again(tuple(sorted(ended)), "the parameter store was lost", losses=1)
    missing = stragglers(scene.tails, failed)
    if missing:
        names = ", ".join(map(str, sorted(missing)))
        return Again(tuple(sorted(ended | missing)), f"straggling: rank {names}", losses=len(missing))
    if min(scene.now - stint.heard_at for stint in failed) < scene.settle_seconds:
        return Wait()
    return _blame(failed[0], scene)


def _ends(scene: Scene) -> Again | Finish | None:
    if not all(stint.ended for stint in scene.stints):
        return None
    if any(stint.asked == "time" for stint in scene.stints):
        ranks = tuple(stint.rank for stint in scene.stints)
        return Again(ranks, "the time of the functions was up")
    if any(stint.asked == "stop" for stint in scene.stints):
        return Finish(TaskState.STOPPED, "stopped")
    return Finish(TaskState.SUCCEEDED, exit_code=0)


def stragglers(tails: Sequence[str], failed: Sequence[Stint]) -> set[int]:
    """Ranks that others have waited for in vain, as these say at the end of their logs; they have not failed themselves."""
    named: set[int] = set()
    for stint in failed:
        tail = tails[stint.rank] if stint.rank < len(tails) else ""
        for found in _MISSING.findall(tail)[-1:]:
            named |= {int(rank) for rank in found.replace(",", " ").split()}
    return named - {stint.rank for stint in failed}


def _failed(stint: Stint) -> bool:
    return stint.phase in ("failed", "ended", "setup") and bool(stint.exit_code) and not stint.asked


def _blame(stint: Stint, scene: Scene) -> Finish:
    if _STORE_FULL.search(_tail(stint, scene)):
        reason = (
            "the parameter store is full; raise the setting functions.store_memory_mb, "
            "or give the store that functions.parameters names more memory"
        )
        return Finish(TaskState.FAILED, reason, stint.exit_code, stint.rank)
    what = "the program" if stint.running_at is not None else "setup"
    reason = f"{what} ended with exit code {stint.exit_code} on node {stint.rank}"
    return Finish(TaskState.FAILED, reason, stint.exit_code, stint.rank)


def _tail(stint: Stint, scene: Scene) -> str:
    return scene.tails[stint.rank] if stint.rank < len(scene.tails) else ""


def _how(stint: Stint) -> str:
    if stint.error or stint.problem:
        return stint.error or stint.problem
    return "killed" if stint.exit_code == _KILLED else "no sign of life"
