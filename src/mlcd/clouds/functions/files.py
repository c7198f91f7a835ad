"""What a scheduler is told of its task, and what it tells; see tasks.files for the folder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from mlcd.clouds.functions.settings import FunctionsSettings
from mlcd.clouds.tasks.files import Files, task_root
from mlcd.core.machines import Deployment
from mlcd.core.progress import Usage
from mlcd.core.serial import to_json
from mlcd.core.task import Refusal, Task, TaskState

LONGEST_SECONDS = 900.0  # that Lambda lets a function run


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
    most_seconds: float = LONGEST_SECONDS  # that the service lets it run
    reports: int = 0  # read so far
    phase: str = ""  # as it reports itself; see orders.Report
    began_at: float | None = None  # by its first report: waiting for room or for the service is not billed
    running_at: float | None = None
    stepped_generation: int = -1  # the newest in which its program has made a step
    started_generation: int = -1  # the newest in which its program was started
    exit_code: int | None = None
    asked: str = ""
    problem: str = ""
    refused: str = ""  # how the object store refused what it wrote
    error: str = ""  # what the service says of an invocation that broke off
    full: bool = False  # it had no memory left
    ended_at: float | None = None
    billed_seconds: float | None = None
    memory_mb: float = 0.0
    reads: int = 0  # of the object store, as it reported
    writes: int = 0

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.ended_at is not None

    def seconds(self, now: float) -> float:
        """What is billed of it so far; one that ended without a word may have run since it was invoked.

        However late it is heard of, none runs longer than it may.
        """
        if self.billed_seconds is not None:
            return self.billed_seconds
        if self.ended_at is None and self.began_at is None:
            return 0.0
        until = now if self.ended_at is None else self.ended_at
        return min(self.most_seconds, max(0.0, until - self.billed_from))

    def seconds_if_over(self, now: float) -> float:
        """What is billed of it where it is given up now, heard of or not."""
        return (self if self.ended else replace(self, ended_at=now)).seconds(now)

    @property
    def billed_from(self) -> float:
        """When it began, as far as it is known."""
        return self.invoked_at if self.began_at is None else self.began_at


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
    reads: int = 0  # of the object store: by all stints before those, and by the scheduler
    writes: int = 0
    restarts: int = 0  # generations after the first, for whatever reason
    losses: int = 0  # functions that failed, were lost or straggled
    starts: int = 0  # of programs that came to their first step
    init_seconds: float = 0.0  # from each of these starts to the first step
    home_checkpoint: str = ""  # the newest that has come home
    vain: int = 0  # restarts in a row without a newer checkpoint
    refused: Refusal | None = None  # why it could not be started, where that is no fault of the program
    hint: str = ""  # what to do about that
    notes: tuple[str, ...] = ()  # functions that were lost on the way, in words
    counts: tuple[Count, ...] = ()  # of each rank
    sizes: dict[str, int] = field(
        default_factory=dict
    )  # of the logs and progress files, as far as reports were read

    def seconds(self, now: float) -> float:
        """Billed so far, over all functions."""
        return self.billed_seconds + sum(stint.seconds(now) for stint in self.stints)

    @property
    def requests(self) -> tuple[int, int]:
        """Reads and writes of the object store so far, by everybody."""
        reads = self.reads + sum(stint.reads for stint in self.stints)
        return reads, self.writes + sum(stint.writes for stint in self.stints)

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
        cost = sum(each.seconds_if_over(stint.invoked_at) for each in before)
        stints = tuple(sorted((*others, stint), key=lambda each: each.rank))
        return replace(
            self,
            stints=stints,
            billed_seconds=self.billed_seconds + cost,
            reads=self.reads + sum(each.reads for each in before),
            writes=self.writes + sum(each.writes for each in before),
        )


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
