"""What a scheduler is told of its task, and what it tells; see tasks.files for the folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from mlcd.clouds.tasks.files import Files, task_root
from mlcd.core.machines import Deployment
from mlcd.core.progress import Usage
from mlcd.core.serial import to_json
from mlcd.core.task import Task, TaskState
from mlcd.settings import FunctionsSettings


@dataclass(frozen=True)
class Spec:
    """All that a scheduler is told, but for the secrets and the settings."""

    task: Task
    deployment: Deployment
    home: str  # the cloud's own folder, shared by all tasks
    launched_at: float


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


@dataclass(frozen=True)
class TaskFiles(Files[Spec, State]):
    """The files of one task, with what its scheduler is told and tells. The secrets go when the task ends."""

    spec_kind = Spec
    state_kind = State

    def read_settings(self) -> FunctionsSettings | None:
        """The settings that the task was launched with; None: it was not launched to the end."""
        return self.read(FunctionsSettings, "settings.json")

    def write_settings(self, settings: FunctionsSettings) -> None:
        """Keep them for whoever looks after the task; they may hold a password."""
        self.write_private("settings.json", to_json(settings))


def task_files(home: Path, task_id: str) -> TaskFiles:
    """Where a task's files are, whether or not there are any."""
    return TaskFiles(task_root(home, task_id))
