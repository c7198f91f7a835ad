"""What the agents' words add up to. Pure but for reading the logs that a diagnosis rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcd.clouds.tasks.diagnosis import diagnose
from mlcd.clouds.tasks.watch import Ending
from mlcd.core.task import TaskState

HEARD_SECONDS = 2.5  # a node that said something so lately is there
WAIT_SECONDS = 20.0  # for the others to be heard of, once a node has failed
NO_ROOM = "no space left on the disk"

_REASONS = {
    "time limit": (TaskState.STOPPED, "time limit"),
    "stopped": (TaskState.STOPPED, "stopped"),
    "spot notice": (TaskState.LOST, "spot notice"),
    "lease": (TaskState.LOST, "its lease ran out: nobody had heard of it for too long"),
    "disk full": (TaskState.FAILED, NO_ROOM),
    "gone": (TaskState.LOST, "mlcd's agent failed there"),
}


@dataclass(frozen=True)
class Roll:
    """All nodes, by rank: their agents' last words, how long they have been silent, and their logs here."""

    agents: Sequence[dict[str, Any]]
    silent_seconds: Sequence[float]
    logs: Sequence[Path]


def verdict(roll: Roll) -> Ending | None:
    """How the task must end; None: it goes on, or has ended well."""
    for rank, agent in enumerate(roll.agents):
        if agent.get("phase") == "ended" and agent["why"] in _REASONS:
            state, reason = _REASONS[agent["why"]]
            return Ending(
                state, reason if state is TaskState.STOPPED else f"{reason} (node {rank})", node=rank
            )
    failed = [rank for rank, agent in enumerate(roll.agents) if _failed(agent)]
    if not failed or _someone_may_be_lost(roll, failed):
        return None
    return _diagnosis(roll, min(failed, key=lambda rank: roll.agents[rank]["ended_at"]))


def _failed(agent: dict[str, Any]) -> bool:
    return bool(agent.get("phase") == "ended" and agent["why"] in ("exit", "setup") and any(agent["codes"]))


def _someone_may_be_lost(roll: Roll, failed: Sequence[int]) -> bool:
    """A program fails when another node is gone: wait until all are heard of, so that the right one is blamed."""
    others = [silent for rank, silent in enumerate(roll.silent_seconds) if rank not in failed]
    return any(HEARD_SECONDS < silent < WAIT_SECONDS for silent in others)


def _diagnosis(roll: Roll, rank: int) -> Ending:
    agent = roll.agents[rank]
    code = next(code for code in agent["codes"] if code)
    if agent.get("disk_full"):  # then the log says nothing of it
        return Ending(TaskState.FAILED, f"{NO_ROOM} (node {rank})", code, rank)
    what = "setup" if agent["why"] == "setup" else "the program"
    return diagnose(code, rank, roll.logs[rank], what, bool(agent.get("out_of_memory")))
