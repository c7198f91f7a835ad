"""What the runner tells the functions of a task, and what they report; all in the task's part of the object store.

    code.zip                                   the program's folder
    instructions.json                          what all functions are to do now (Instructions)
    reports/<rank>/<invocation>/<number>       what a function has to say since its last report (Report)
    checkpoints/<name>/<file>                  committed checkpoints; manifest.json comes last
    outputs/<file>                             what the program hands back

Every report is a sign of life: the flag whose absence tells that a function is lost. Standard library only, because it
runs inside the function.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

CODE = "code.zip"
INSTRUCTIONS = "instructions.json"
WRITABLE = "writable"  # written by the runner to see whether it can


@dataclass(frozen=True)
class Event:
    """What a function is invoked with. Only here do the secrets travel."""

    objects: str  # URL of the task's part of the object store
    task_id: str
    rank: int
    invocation_id: str  # the runner's own name for it
    run: str
    setup: str = ""
    envs: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    checkpoint_path: str = ""
    checkpoint_keep: int = 2
    grace_seconds: float = 15.0
    margin_seconds: float = 30.0  # before its time is up: to end the program and bring home what it saved
    linger_seconds: float = 0.0  # after the program failed: to wait for instructions to try again
    tick_seconds: float = 1.0
    cores: float = 1.0
    limit_seconds: float | None = None  # from its begin, of the task's own limit: kept whoever is watching


@dataclass(frozen=True)
class Instructions:
    """What all functions of a task are to do now."""

    generation: int = 0  # one more whenever the programs start anew
    members: dict[str, str] = field(default_factory=dict)  # rank → the invocation that may act for it
    checkpoint: str = ""  # to start from; empty: from the beginning
    samples_before: float = 0.0  # in that checkpoint
    sync_url: str = ""  # the parameter store
    sync_timeout: float = 300.0
    loss_seconds: float = 0.0  # mean time between two losses, as far as this task has seen; 0: not known
    end: str = ""  # why everything is to end; empty: go on

    def follows(self, event: Event) -> bool:
        """Whether this invocation still acts for its rank."""
        return self.members.get(str(event.rank), event.invocation_id) == event.invocation_id


@dataclass(frozen=True)
class Report:
    """What is new since the report before."""

    at: float  # seconds since the epoch
    phase: str  # fetching, setup, running, failed, ended
    generation: int = 0
    log: str = ""
    progress: str = ""  # lines as mlcd.worker writes them
    checkpoint: str = ""  # the newest that has arrived in the object store
    began_at: float | None = None  # when the function itself was started: from then on it is billed
    running_at: float | None = None  # when the program was started
    exit_code: int | None = None  # of the program, once it has ended
    asked: str = ""  # why the program was asked to end: time, limit, stop; empty: it ended by itself
    memory_mb: float = 0.0  # peak of all processes
    cpu_share: float = 0.0  # of its cores, lately
    reads: int = 0  # of the object store, in this invocation
    writes: int = 0
    problem: str = ""  # what went wrong outside the program
    sync_error: str = ""  # of mlcd.sync, for which the program may have failed: StoreLost, StoreFull, SyncTimeout
    missing: str = ""  # the ranks that it waited for, with commas


def report_key(rank: int, invocation_id: str, number: int) -> str:
    """Where a report is."""
    return f"reports/{rank}/{invocation_id}/{number:06d}"


def checkpoint_key(name: str, file: str) -> str:
    """Where a file of a checkpoint is."""
    return f"checkpoints/{name}/{file}"


def to_bytes(noun: Event | Instructions | Report) -> bytes:
    """For the wire."""
    return json.dumps(asdict(noun)).encode()


def read_event(data: dict[str, Any]) -> Event:
    """What to_bytes wrote of an event."""
    return Event(**{**data, "outputs": tuple(data.get("outputs", ()))})


def read_instructions(data: bytes) -> Instructions:
    """What to_bytes wrote of instructions."""
    return Instructions(**json.loads(data))


def read_report(data: bytes) -> Report:
    """What to_bytes wrote of a report; what is none of ours is told as a report of that problem."""
    try:
        report = Report(**json.loads(data))
    except (ValueError, TypeError, RecursionError):
        return NO_REPORT
    return report if _is_sound(report) else NO_REPORT


NO_REPORT = Report(at=0.0, phase="ended", problem="a report of the function cannot be read")
_KINDS: dict[str, tuple[type, ...]] = {"float": (int, float), "int": (int,), "str": (str,)}
_MOST = {"float": 1e300, "int": 2**63}  # whole numbers of any size can be sent, but not reckoned with


def _is_sound(report: Report) -> bool:
    """Whether every fact is of its kind, and every number a number."""
    return all(_fits(getattr(report, fact.name), str(fact.type).split(" | ")) for fact in fields(Report))


def _fits(value: Any, kinds: list[str]) -> bool:
    if value is None:
        return "None" in kinds
    of_kind = isinstance(value, _KINDS[kinds[0]])
    return of_kind and (kinds[0] not in _MOST or abs(value) < _MOST[kinds[0]])  # NaN is below nothing
