"""What the agents' words add up to. Pure but for reading the logs that a diagnosis rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.agent.signs import TAKEN
from mlcd.clouds.tasks.diagnosis import diagnose
from mlcd.clouds.tasks.watch import Ending
from mlcd.core.task import TaskState

HEARD_SECONDS = 2.5  # what a node said so long after another one had failed, it said after it
NO_ROOM = "no space left on the disk"
SPOT_NOTICE = "spot notice"
TAKEN_AWAY = "its machine was told to go"

_REASONS = {
    "time limit": (TaskState.STOPPED, "time limit"),
    "stopped": (TaskState.STOPPED, "stopped"),
    "spot notice": (TaskState.LOST, SPOT_NOTICE),
    TAKEN: (TaskState.LOST, TAKEN_AWAY),
    "lease": (TaskState.LOST, "its lease ran out: nobody had heard of it for too long"),
    "disk full": (TaskState.FAILED, NO_ROOM),
    "gone": (TaskState.LOST, "mlcd's agent failed there"),
}


@dataclass(frozen=True)
class Roll:
    """All nodes, by rank: their agents' last words, for how long these have been the last, since when we know of their
    programs' ends, and their logs here."""

    agents: Sequence[dict[str, Any]]
    silent_seconds: Sequence[float]
    ended_seconds: Sequence[float]
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


def is_leaving(agent: dict[str, Any]) -> bool:
    """Whether the machine of an agent whose program is over goes, too, or is in no good order: nobody may take it over."""
    state, _ = _REASONS.get(agent["why"], (TaskState.STOPPED, ""))
    return bool(agent.get("notice")) or state is TaskState.LOST


def _failed(agent: dict[str, Any]) -> bool:
    return bool(agent.get("phase") == "ended" and agent["why"] in ("exit", "setup") and any(agent["codes"]))


def _someone_may_be_lost(roll: Roll, failed: Sequence[int]) -> bool:
    """A program fails when another node is gone: wait until all have been heard of since, so that the right one is blamed.

    Whoever is not heard of again is lost: the errand ends the task for that, after the seller's `lost_seconds`.
    """
    since = max(roll.ended_seconds[rank] for rank in failed) - HEARD_SECONDS
    running = [rank for rank, agent in enumerate(roll.agents) if agent.get("phase") != "ended"]
    return any(roll.silent_seconds[rank] > since for rank in running)


def _diagnosis(roll: Roll, rank: int) -> Ending:
    agent = roll.agents[rank]
    code = next(code for code in agent["codes"] if code)
    if agent.get("disk_full"):  # then the log says nothing of it
        return Ending(TaskState.FAILED, f"{NO_ROOM} (node {rank})", code, rank)
    what = "setup" if agent["why"] == "setup" else "the program"
    return diagnose(code, rank, roll.logs[rank], what, bool(agent.get("out_of_memory")))
