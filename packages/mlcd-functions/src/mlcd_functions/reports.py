"""What an answer or a report changes in what is known of a function. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace

from mlcd.core.progress import NodeUsage, Usage
from mlcd.core.task import TaskState
from mlcd_functions.files import Invocation, State
from mlcd_functions.lambdas import Answer
from mlcd_functions.messages import Report


def with_answer(state: State, invocation_id: str, answer: Answer, replaced: Mapping[str, Invocation]) -> State:
    """The invocation has ended, one way or another; what it has cost is known now."""
    if invocation_id in replaced:  # its cost was counted up to the moment at which another took its place
        counted = replaced[invocation_id].seconds_if_over(max(invocation.invoked_at for invocation in state.latest))
        more = max(0.0, (answer.billed_seconds or 0.0) - counted)
        return replace(state, billed_seconds=state.billed_seconds + more)
    found = next((invocation for invocation in state.latest if invocation.invocation_id == invocation_id), None)
    if found is None:
        return state
    billed = answer.billed_seconds
    now = found.reported_at if billed is None else found.billed_from + billed
    ended = replace(found, ended_at=now, billed_seconds=billed, error=answer.error, full=found.full or answer.full)
    return state.with_invocation(_with_facts(ended, answer, state.generation))


def _with_facts(invocation: Invocation, answer: Answer, generation: int) -> Invocation:
    """The last report's facts come with the answer, in case the report itself did not arrive."""
    facts = answer.payload
    if not facts:
        return invocation
    stale = facts.get("generation", 0) not in (0, generation)
    return replace(
        invocation,
        phase="ended",
        exit_code=code if isinstance(code := facts.get("exit_code"), int) else None,
        asked=str(facts.get("asked", "")),
        refused=str(facts.get("refused", "")),
        problem=str(facts.get("problem", "")) or (_STALE if stale else ""),
        sync_error=str(facts.get("sync_error", "")),
        missing=_ranks(str(facts.get("missing", ""))),
    )


def _ranks(text: str) -> tuple[int, ...]:
    return tuple(int(rank) for rank in text.split(",") if rank.isdecimal() and len(rank) < 10)


def with_report(state: State, rank: int, report: Report) -> State:
    """A sign of life, and what came with it."""
    invocation = next(each for each in state.latest if each.rank == rank)
    running_at = report.running_at if report.running_at is not None else invocation.running_at
    began_at = invocation.began_at
    if began_at is None and report.began_at is not None:
        began_at = max(invocation.invoked_at, report.began_at)  # a service may have had it ready before
    told = replace(
        invocation,
        reports=invocation.reports + 1,
        reported_at=max(invocation.reported_at, report.at),
        memory_mb=max(invocation.memory_mb, report.memory_mb),
        cpu_share=min(1.0, report.cpu_share),
        began_at=began_at,
        running_at=running_at,
        reads=max(invocation.reads, report.reads),
        writes=max(invocation.writes, report.writes),
    )
    if report.generation in (0, state.generation):
        told = replace(
            told,
            phase=report.phase,
            exit_code=report.exit_code,
            asked=report.asked,
            problem=report.problem,
            sync_error=report.sync_error,
            missing=_ranks(report.missing),
        )
    if report.phase == "ended" and invocation.ended_at is None:
        stale = report.generation not in (0, state.generation)
        told = replace(told, phase="ended", ended_at=report.at, problem=_STALE if stale else report.problem)
    state = _with_begin(_with_first_step(state.with_invocation(told), told, report))
    return _with_phase(state, report)


_STALE = "its time ended before it heard of the newest generation"


def _with_begin(state: State) -> State:
    """The task begins with the first of its first functions, or with what was rented for them before."""
    began = [invocation.began_at for invocation in state.latest if invocation.began_at is not None]
    first = state.store_at is None and began and state.generation == 1
    return replace(state, started_at=min(began)) if first else state


def _with_first_step(state: State, invocation: Invocation, report: Report) -> State:
    """Count the time from the start to the first step: that is what every restart costs."""
    if report.generation != state.generation or invocation.stepped_generation >= state.generation:
        return state
    first = _first_step_at(report.progress)
    if first is None:
        return state
    fresh = invocation.generation == state.generation
    began = invocation.billed_from if fresh or report.running_at is None else report.running_at
    return replace(
        state.with_invocation(replace(invocation, stepped_generation=state.generation)),
        init_seconds=state.init_seconds + max(0.0, min(first, report.at) - began),
        starts=state.starts + 1,
    )


def _first_step_at(progress: str) -> float | None:
    for text in progress.splitlines():
        try:
            line = json.loads(text)
            if float(line["steps"]) > 0 and math.isfinite(first := float(line["t"])):
                return first
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
    return None


def _with_phase(state: State, report: Report) -> State:
    """The state of the task is that of the function that is furthest."""
    if report.phase == "setup" and state.state is TaskState.STARTING:
        state = replace(state, state=TaskState.SETUP, setup_at=report.at)
    if report.running_at is not None and state.running_at is None:
        running_at = max(report.running_at, state.started_at or 0.0)
        state = replace(state, state=TaskState.RUNNING, running_at=running_at)
        state = replace(state, setup_at=state.setup_at or running_at)
    nodes = [NodeUsage(each.cpu_share, peak_memory_gib=each.memory_mb / 1024) for each in state.latest]
    usage = Usage.of(nodes)
    peak = max(state.usage.peak_memory_gib, usage.peak_memory_gib)  # also of those that others have replaced
    return replace(state, usage=replace(usage, peak_memory_gib=peak))
