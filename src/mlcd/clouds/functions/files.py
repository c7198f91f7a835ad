"""How a task on functions stands, in its scheduler's words: home/functions/tasks/<task id>/scheduler.json.

The other files there (lock, spec.json, stop, supervisor.log) are as on the local cloud. The secrets wait in a file that
only the owner can read, for a scheduler that takes over, and go when the task ends.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mlcd.clouds.local.files import TaskFiles, write_atomically
from mlcd.core.progress import Usage
from mlcd.core.serial import from_json, to_json
from mlcd.core.task import TaskState


@dataclass(frozen=True)
class Stint:
    """One invocation of one rank, as far as it is known."""

    rank: int
    invocation: str
    generation: int  # in which it was invoked
    invoked_at: float
    heard_at: float  # its last sign of life, by the scheduler's clock
    reports: int = 0  # read so far
    phase: str = ""  # as it reports itself; see orders.Report
    running_at: float | None = None
    stepped_generation: int = -1  # the newest in which its program has made a step
    started_generation: int = -1  # the newest in which its program was started
    exit_code: int | None = None
    asked: str = ""
    problem: str = ""
    error: str = ""  # what the service says of an invocation that broke off
    full: bool = False  # it had no memory left
    ended_at: float | None = None
    billed_seconds: float | None = None
    memory_mb: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.ended_at is not None

    def seconds(self, now: float) -> float:
        """What is billed of it so far."""
        if self.billed_seconds is not None:
            return self.billed_seconds
        return max(0.0, (self.ended_at if self.ended_at is not None else now) - self.invoked_at)


@dataclass(frozen=True)
class Count:
    """What one rank's programs have counted, as it was written home."""

    before_samples: float = 0.0  # in generations before this one
    before_steps: float = 0.0
    lost_samples: float = 0.0  # of those: not in the checkpoint, and so done again
    lost_steps: float = 0.0
    samples: float = 0.0  # in this generation
    steps: float = 0.0
    process: str = ""  # that counts in this generation
    past: str = ""  # that counted before: what comes late of it is no longer counted


@dataclass(frozen=True)
class State:
    """How the task stands."""

    pid: int
    birth: str
    state: TaskState = TaskState.STARTING
    seen_at: float = 0.0
    started_at: float | None = None
    setup_at: float | None = None
    running_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    reason: str = ""
    failed_node: int = 0
    usage: Usage = Usage()
    uploaded: bool = False  # the code is in the object store
    generation: int = 0
    checkpoint: str = ""  # with which this generation began
    stints: tuple[Stint, ...] = ()  # the newest of each rank
    invocations: int = 0
    billed_seconds: float = 0.0  # of all stints before those
    restarts: int = 0  # generations after the first, for whatever reason
    losses: int = 0  # functions that failed, were lost or straggled
    starts: int = 0  # of programs that came to their first step
    init_seconds: float = 0.0  # from each of these starts to the first step
    home_checkpoint: str = ""  # the newest that has come home
    vain: int = 0  # restarts in a row without a newer checkpoint
    counts: tuple[Count, ...] = ()  # of each rank

    def seconds(self, now: float) -> float:
        """Billed so far, over all functions."""
        return self.billed_seconds + sum(stint.seconds(now) for stint in self.stints)

    def count_of(self, rank: int) -> Count:
        """What a rank has counted."""
        return self.counts[rank] if rank < len(self.counts) else Count()

    def with_count(self, rank: int, count: Count) -> State:
        """This state with another count of a rank."""
        counts = [*self.counts, *[Count()] * (rank + 1 - len(self.counts))]
        counts[rank] = count
        return replace(self, counts=tuple(counts))

    def with_stint(self, stint: Stint) -> State:
        """This state with a rank's newest invocation; what the one before it cost stays counted."""
        others = tuple(each for each in self.stints if each.rank != stint.rank)
        before = [
            each for each in self.stints if each.rank == stint.rank and each.invocation != stint.invocation
        ]
        cost = sum(each.seconds(stint.invoked_at) for each in before)
        stints = tuple(sorted((*others, stint), key=lambda each: each.rank))
        return replace(self, stints=stints, billed_seconds=self.billed_seconds + cost)


def read_state(files: TaskFiles) -> State | None:
    """How it stands; None: no scheduler took over yet."""
    try:
        return from_json(State, (files.root / "scheduler.json").read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_state(files: TaskFiles, state: State) -> None:
    """Keep how it stands; readers see the old or the new state, whole."""
    write_atomically(files.root / "scheduler.json", to_json(replace(state, seen_at=time.time())))


def keep_secrets(files: TaskFiles, secrets: Mapping[str, str]) -> None:
    """Keep them for the scheduler and the one after it."""
    place = _secrets(files)
    handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps(dict(secrets)))


def read_secrets(files: TaskFiles) -> dict[str, str]:
    """Those, or none."""
    try:
        return {str(name): str(value) for name, value in json.loads(_secrets(files).read_text()).items()}
    except FileNotFoundError:
        return {}


def forget_secrets(files: TaskFiles) -> None:
    """Nobody needs them any more."""
    _secrets(files).unlink(missing_ok=True)


def _secrets(files: TaskFiles) -> Path:
    return files.root / "secrets.json"
