"""How a task must end, by what its agents report. Pure but for reading the logs that a diagnosis rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.agent.limits import NodeEnd
from mlcd.clouds.tasks.diagnosis import NO_ROOM, diagnose
from mlcd.clouds.tasks.outcome import STOPPED, TIME_LIMIT, Outcome
from mlcd.core.task import EndCause, TaskState

HEARD_SECONDS = 2.5  # what a node said so long after another one had failed, it said after it

_ENDS = {
    NodeEnd.TIME_LIMIT: TIME_LIMIT,
    NodeEnd.STOPPED: STOPPED,
    NodeEnd.SPOT_NOTICE: Outcome(EndCause.SPOT_NOTICE, "spot notice"),
    NodeEnd.TAKEN: Outcome(EndCause.SPOT_NOTICE, "its machine was told to go"),
    NodeEnd.LEASE: Outcome(EndCause.NODE_LOST, "its lease ran out: nobody had heard of it for too long"),
    NodeEnd.DISK_FULL: Outcome(EndCause.DISK_FULL, NO_ROOM),
    NodeEnd.GONE: Outcome(EndCause.NODE_LOST, "mlcd's agent failed there"),
}


@dataclass(frozen=True)
class NodeReports:
    """All nodes, by rank: their agents' latest reports, for how long these have been the latest, since when we know of their
    programs' ends, and their logs here."""

    agents: Sequence[dict[str, Any]]
    silent_seconds: Sequence[float]
    ended_seconds: Sequence[float]
    logs: Sequence[Path]


def decide_outcome(reports: NodeReports) -> Outcome | None:
    """How the task must end; None: it goes on, or has ended well."""
    for rank, agent in enumerate(reports.agents):
        if agent.get("phase") == "ended" and agent["why"] in _ENDS:
            outcome = replace(_ENDS[agent["why"]], node=rank)
            stopped = outcome.state is TaskState.STOPPED
            return outcome if stopped else replace(outcome, reason=f"{outcome.reason} (node {rank})")
    failed = [rank for rank, agent in enumerate(reports.agents) if _failed(agent)]
    if not failed or _someone_may_be_lost(reports, failed):
        return None
    return _diagnosis(reports, min(failed, key=lambda rank: reports.agents[rank]["ended_at"]))


def is_leaving(agent: dict[str, Any]) -> bool:
    """Whether the machine of an agent whose program is over goes, too, or is in no good order: nobody may take it over."""
    return bool(agent.get("notice")) or _ENDS.get(agent["why"], STOPPED).state is TaskState.LOST


def _failed(agent: dict[str, Any]) -> bool:
    return bool(agent.get("phase") == "ended" and agent["why"] in (NodeEnd.EXIT, NodeEnd.SETUP) and any(agent["codes"]))


def _someone_may_be_lost(reports: NodeReports, failed: Sequence[int]) -> bool:
    """A program fails when another node is gone: wait until all have been heard of since, so that the right one is blamed.

    Whoever is not heard of again is lost: RemoteTask ends the task for that, after the provider's `lost_seconds`.
    """
    since = max(reports.ended_seconds[rank] for rank in failed) - HEARD_SECONDS
    running = [rank for rank, agent in enumerate(reports.agents) if agent.get("phase") != "ended"]
    return any(reports.silent_seconds[rank] > since for rank in running)


def _diagnosis(reports: NodeReports, rank: int) -> Outcome:
    agent = reports.agents[rank]
    code = next(code for code in agent["codes"] if code)
    if agent.get("disk_full"):  # then the log says nothing of it
        return Outcome(EndCause.DISK_FULL, f"{NO_ROOM} (node {rank})", code, rank)
    what = "setup" if agent["why"] == NodeEnd.SETUP else "the program"
    return diagnose(code, rank, reports.logs[rank], what, bool(agent.get("out_of_memory")))
