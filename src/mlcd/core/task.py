"""What a cloud is asked to execute, and what it says of it. A probe and a training are both tasks.

STARTING → SETUP → RUNNING → SUCCEEDED | FAILED | STOPPED
any of them → LOST      the cloud knows nothing of it, or a node is gone
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from mlcd.core.job import LearningRate, ProgressSettings, Target
from mlcd.core.machines import Deployment
from mlcd.core.progress import Progress

Handle = str  # plain, so that it survives a restart
_BESIDE = "+"  # between the id of a task and the name of what runs for its sake


class TaskKind(StrEnum):
    """What the task is for."""

    PROBE = "probe"
    TRAINING = "training"


class Refusal(StrEnum):
    """Why a task could not be started, where that is no fault of its program."""

    NO_CAPACITY = "no capacity"  # not enough machines of this kind now
    USER = "user"  # settings, rights or the account are to be changed first: asking again changes nothing
    CLOUD = "cloud"  # the cloud or the way to its machines failed: it may go better elsewhere, or later


class EndCause(StrEnum):
    """Why a task or an attempt ended. Decisions read this; the sentence beside it is for people only."""

    # As the cloud says.

    COMPLETED = "completed"  # the program ended by itself, and well
    CRASHED = "crashed"  # the program or its `setup` failed
    OUT_OF_MEMORY = "out of memory"
    NO_GPU = "no GPU"  # the program needs one, and found none
    DISK_FULL = "disk full"
    STOPPED = "stopped"  # somebody asked for it
    TIME_LIMIT = "time limit"  # the task's `max_seconds` are over
    SPOT_NOTICE = "spot notice"  # the machine is taken back, and the cloud said so beforehand
    NODE_LOST = "node lost"  # a machine is gone or does not answer, or its program was killed from outside
    RUNNER_LOST = "runner lost"  # the task runner is gone, or the cloud knows nothing of the task
    NO_CAPACITY = "no capacity"  # not enough machines of this kind now
    REFUSED = "refused"  # settings, rights or the account must change first: asking again changes nothing
    CLOUD_FAILED = "cloud failed"  # the cloud or the way to its machines failed before the program ran

    # As the engine decides.
    TARGET_REACHED = "target reached"  # the metric of `work.until`
    BUDGET = "budget"
    DEADLINE = "deadline"
    HUNG = "hung"  # no step for too long
    NAN_LOSS = "nan loss"
    NOT_SHARED = "work not shared"  # each rank trains the same for itself
    MOVE = "move"  # to another deployment
    REPLAN = "replan"  # the job has changed: probes train on until the next attempt begins


class TaskState(StrEnum):
    """See the life cycle above."""

    STARTING = "starting"
    SETUP = "setup"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED, TaskState.LOST)


@dataclass(frozen=True)
class Task:
    """Everything that a cloud needs to execute the user's program once."""

    id: str
    job_id: str
    kind: TaskKind
    platform: str
    run: str
    setup: str = ""
    workdir: str = ""
    envs: dict[str, str] = field(default_factory=dict)
    file_mounts: dict[str, str] = field(default_factory=dict)
    shard_mounts: tuple[str, ...] = ()  # of these, those of which each node has its own part
    outputs: tuple[str, ...] = ()
    progress: ProgressSettings = ProgressSettings()
    folder: str = ""  # on this computer: the cloud keeps logs, progress and outputs here (see TaskFolder)
    checkpoints: str = ""  # on this computer: committed checkpoints of the job, shared by its attempts
    checkpoint_path: str = ""  # see CheckpointSettings.path
    checkpoint_keep: int = 2
    save_seconds: float = 0.0  # between two checkpoints, where the job says so; see mlcd.worker.saving
    loss_seconds: float = 0.0  # mean time between two losses on this deployment; 0: not known, or of no account
    grace_seconds: float = 15.0
    max_seconds: float | None = None  # the cloud ends it by itself after that, whoever is watching
    expected_seconds: float = 0.0  # that it needs, its start included, by the forecast; 0: not known
    samples: float = 0.0  # still to do; 0: until the program ends
    all_trained: bool = False  # nothing is left to do: the program is started only to hand back what it made
    samples_before: float = 0.0  # done by earlier attempts
    samples_per_epoch: float = 0.0  # the size of the data set, where the job tells it
    until: Target | None = None
    learning_rate: LearningRate = LearningRate()
    measure_noise: bool = False  # of the gradients
    noise_scale: float | None = None  # in samples, as an earlier attempt measured it
    measuring_seconds: float = 0.0  # of a probe: warm-up and measuring, if all goes well


def beside(task_id: str, name: str) -> str:
    """The id of a task that runs for the sake of another one, such as its parameter store."""
    return f"{task_id}{_BESIDE}{name}"


def main_task(task_id: str) -> str:
    """The task for whose sake this one runs; mostly itself."""
    return task_id.partition(_BESIDE)[0]


@dataclass(frozen=True)
class TaskFolder:
    """Where the things of one task lie on this computer, the same for every cloud."""

    root: Path

    def log(self, node: int = 0) -> Path:
        """Standard output and error of a node's program."""
        return self.root / "logs" / f"node-{node}.log"

    @property
    def progress(self) -> Path:
        """What the ranks report, a file each (see mlcd.worker)."""
        return self.root / "progress"

    @property
    def outputs(self) -> Path:
        """What the program hands back."""
        return self.root / "outputs"


@dataclass(frozen=True)
class Charge:
    """One line of the bill."""

    what: str  # "2 × local-2c", "disk", "requests"
    seconds: float
    usd: float


@dataclass(frozen=True)
class TaskStatus:
    """What a cloud knows of a task at this moment."""

    state: TaskState
    progress: Progress = Progress()
    charges: tuple[Charge, ...] = ()
    started_at: float | None = None  # when the machines began to cost money
    setup_at: float | None = None  # when `setup` began
    running_at: float | None = None  # when `run` began
    ended_at: float | None = None
    exit_code: int | None = None
    reason: str = ""  # why it ended, in plain words, where the cloud knows: "out of memory", "time limit"
    log_tail: str = ""
    warning: str = ""  # what goes wrong while nobody looks: machines that cannot be given back
    notes: tuple[str, ...] = ()  # what happened on the way that is worth telling, oldest first
    refused: Refusal | None = None  # why it was not started, where it is no fault of the program
    hint: str = ""  # what to do about that
    cause: EndCause | None = None  # why it ended, for decisions; where a cloud names none, what is usual

    def __post_init__(self) -> None:
        if self.state.ended and (self.cause is None or self.refused is not None):
            cause = _CAUSES[self.refused] if self.refused is not None else _USUAL_CAUSES[self.state]
            object.__setattr__(self, "cause", cause)

    @property
    def usd(self) -> float:
        """Money so far; nothing while it uses what an earlier task has paid for."""
        return max(0.0, sum(charge.usd for charge in self.charges))


_USUAL_CAUSES = {
    TaskState.SUCCEEDED: EndCause.COMPLETED,
    TaskState.FAILED: EndCause.CRASHED,
    TaskState.STOPPED: EndCause.STOPPED,
    TaskState.LOST: EndCause.NODE_LOST,
}
_CAUSES = {
    Refusal.NO_CAPACITY: EndCause.NO_CAPACITY,
    Refusal.USER: EndCause.REFUSED,
    Refusal.CLOUD: EndCause.CLOUD_FAILED,
}


@dataclass(frozen=True)
class Owned:
    """Something that still costs money, found by asking the cloud itself."""

    handle: Handle
    task_id: str  # that needs it
    job_id: str
    what: str
    since: float
    deployment: Deployment | None = None
    leased_until: float | None = None  # renewed by whoever looks after it, wherever that is
    kept_until: float | None = None  # its task is over, and it waits until then for the next one of its job
