"""When machines ended that nobody here saw ending: by their leases. Pure.

A computer that slept for ten hours finds its machines gone. They ended by themselves when their leases were over, and
from then on they cost nothing.
"""

from __future__ import annotations

from dataclasses import replace

from mlcd.clouds.remote.base import Machine
from mlcd.clouds.remote.files import State

BOOT_SECONDS = 120.0  # a machine counts its first lease from when it has booted
LATE_SECONDS = 60.0  # the most that a machine takes to end its program and itself, once its lease is over


def first_lease(machine: Machine, lease_seconds: float) -> float:
    """When a machine ends itself whose lease nobody has renewed yet."""
    return machine.billed_from + BOOT_SECONDS + lease_seconds


def lease_ends(state: State, machine: Machine, grace_seconds: float) -> float | None:
    """When a machine is gone whose lease nobody renews any more; None: nothing is known of its lease."""
    until = state.leased_until.get(machine.id)
    return None if until is None else until + min(grace_seconds, LATE_SECONDS)


def without_the_gone(state: State, now: float, grace_seconds: float) -> tuple[State, float]:
    """A task that goes on as far as anybody knows: with the ends of those machines whose leases are over, and the last
    moment that it can have cost money at."""
    ends = {machine.id: lease_ends(state, machine, grace_seconds) for machine in state.machines}
    over = {id_: end for id_, end in ends.items() if end is not None and end < now}
    if not over:
        return state, now
    gone = {**over, **state.billed_to}
    return replace(state, billed_to=gone), max(gone[id_] for id_ in over) if len(over) == len(ends) else now


def ended_at(state: State, now: float) -> float:
    """When a task ended that is over by now: with the last of its machines, or now where some wait for the next task."""
    ends = [state.billed_to[machine.id] for machine in state.machines if machine.id in state.billed_to]
    if not ends or len(ends) < len(state.machines):
        return now
    return min(now, max(state.started_at or 0.0, *ends))
