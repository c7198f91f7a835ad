"""What the runner of a task on functions tells beside the rest; see tasks.files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mlcd.clouds.tasks.files import Files, RunnerState, TaskSpec
from mlcd.clouds.tasks.outcome import Outcome
from mlcd_functions.settings import FunctionsSettings

PLAN = "store.json"  # of a parameter store on a machine of its own
LONGEST_SECONDS = 900.0  # that Lambda lets a function run


Spec = TaskSpec


@dataclass(frozen=True)
class Invocation:
    """One invocation of one rank, as far as it is known."""

    rank: int
    invocation_id: str
    generation: int  # in which it was invoked
    invoked_at: float
    reported_at: float  # its last sign of life, by the runner's clock
    most_seconds: float = LONGEST_SECONDS  # that the service lets it run
    reports: int = 0  # read so far
    phase: str = ""  # as it reports itself; see messages.Report
    began_at: float | None = None  # by its first report: waiting for room or for the service is not billed
    running_at: float | None = None
    stepped_generation: int = -1  # the newest in which its program has made a step
    exit_code: int | None = None
    asked: str = ""
    problem: str = ""
    sync_error: str = ""  # see messages.Report
    missing: tuple[int, ...] = ()
    refused: str = ""  # how the object store refused what it wrote
    error: str = ""  # what the service says of an invocation that broke off
    full: bool = False  # it had no memory left
    ended_at: float | None = None
    billed_seconds: float | None = None
    memory_mb: float = 0.0
    cpu_share: float = 0.0
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
class State(RunnerState):
    """With what is known of the functions."""

    uploaded: bool = False  # the code is in the object store
    generation: int = 0
    checkpoint: str = ""  # with which this generation began
    latest: tuple[Invocation, ...] = ()  # the newest of each rank
    invocations: int = 0
    billed_seconds: float = 0.0  # of all invocations before those
    reads: int = 0  # of the object store: by all invocations before those, and by the runner
    writes: int = 0
    restarts: int = 0  # generations after the first, for whatever reason
    losses: int = 0  # functions that failed, were lost or straggled
    starts: int = 0  # of programs that came to their first step
    init_seconds: float = 0.0  # from each of these starts to the first step
    home_checkpoint: str = ""  # the newest that has come home
    fruitless: int = 0  # restarts in a row without a newer checkpoint
    counts: tuple[Count, ...] = ()  # of each rank
    stores: tuple[
        str, ...
    ] = ()  # parameter stores on machines of their own, as tasks of the cloud ec2; the newest last
    store_at: float | None = None  # since when the first of them costs money
    outcome: Outcome | None = (
        None  # nothing runs any more; only what it made is still to be brought home and cleared up
    )
    sizes: dict[str, int] = field(default_factory=dict)  # of the logs and progress files, as far as reports were read

    def seconds(self, now: float) -> float:
        """Billed so far, over all functions."""
        return self.billed_seconds + sum(invocation.seconds(now) for invocation in self.latest)

    @property
    def requests(self) -> tuple[int, int]:
        """Reads and writes of the object store so far, by everybody."""
        reads = self.reads + sum(invocation.reads for invocation in self.latest)
        return reads, self.writes + sum(invocation.writes for invocation in self.latest)

    def count_of(self, rank: int) -> Count:
        """What a rank has counted."""
        return self.counts[rank] if rank < len(self.counts) else Count()

    def with_count(self, rank: int, count: Count) -> State:
        """This state with another count of a rank."""
        counts = [*self.counts, *[Count()] * (rank + 1 - len(self.counts))]
        counts[rank] = count
        return replace(self, counts=tuple(counts))

    def with_invocation(self, invocation: Invocation) -> State:
        """This state with a rank's newest invocation; what the one before it cost stays counted."""
        others = tuple(each for each in self.latest if each.rank != invocation.rank)
        before = [
            each
            for each in self.latest
            if each.rank == invocation.rank and each.invocation_id != invocation.invocation_id
        ]
        cost = sum(each.seconds_if_over(invocation.invoked_at) for each in before)
        invocations = tuple(sorted((*others, invocation), key=lambda each: each.rank))
        return replace(
            self,
            latest=invocations,
            billed_seconds=self.billed_seconds + cost,
            reads=self.reads + sum(each.reads for each in before),
            writes=self.writes + sum(each.writes for each in before),
        )


@dataclass(frozen=True)
class TaskFiles(Files[Spec, State]):
    """The files of one task, with what its runner is told and tells. The secrets go when the task ends."""

    spec_kind = Spec
    state_kind = State

    def forget_secrets(self) -> None:
        """Nobody needs them any more, nor the parameter store's password."""
        super().forget_secrets()
        (self.root / PLAN).unlink(missing_ok=True)

    def read_settings(self) -> FunctionsSettings | None:
        """The settings that the task was launched with; None: it was not launched to the end."""
        return self.read(FunctionsSettings, "settings.json")
