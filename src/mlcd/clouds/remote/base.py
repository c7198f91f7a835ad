"""The borders of a cloud whose machines are elsewhere: who rents them, and the way to one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mlcd.core.machines import Deployment
from mlcd.errors import CloudError, MlcdError


@dataclass(frozen=True)
class Machine:
    """One rented machine."""

    id: str
    host: str  # where it is reached from here; empty: not known yet
    address: str  # where the other nodes reach it
    billed_from: float  # by this task; seconds since the epoch; 0: it costs nothing yet
    zone: str = ""
    paid_until: float = 0.0  # an earlier task has paid for it up to then
    rented_at: float = 0.0  # by an earlier task; 0: this one rented it
    details: dict[str, str] = field(default_factory=dict)  # the provider's own


@dataclass(frozen=True)
class CommandResult:
    """What a command on a machine gave."""

    code: int
    output: str  # standard output and error, one after the other


class UnreachableError(CloudError):
    """The machine does not answer."""


class BusyError(CloudError):
    """The provider was asked too often: the same may be asked again a little later."""


class PartlyRentedError(CloudError):
    """Some of the machines were rented and others could not be: these are to be paid for and given back."""

    def __init__(self, cause: MlcdError, machines: Sequence[Machine]) -> None:
        super().__init__(cause.message, cause.hint)
        self.cause, self.machines = cause, tuple(machines)


class RefusedError(CloudError):
    """The machine may not be entered, or lacks what every machine needs: asking again changes nothing."""


class Reach(Protocol):
    """The way to one machine. Every call ends within its time.

    UnreachableError when the machine does not answer now; RefusedError when it will not until something is changed.
    """

    base: str  # the folder there that is ours

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        """Run a command for bash there."""
        ...

    def put(self, archive: Path, folder: str) -> None:
        """Unpack a gzipped tar archive into a folder there, which is made where it is missing."""
        ...

    def read(self, path: str, offset: int = 0, most: int = 4 << 20) -> bytes | None:
        """The content of a file from there on; None: no such file."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Write a small file such that no one ever reads half of it."""
        ...

    def fetch(self, path: str, target: Path, most: int) -> None:
        """Copy a file from there to here, and no more than so many bytes of it; CloudError where it has more."""
        ...

    def close(self) -> None:
        """Let go of the connection; what runs there goes on."""
        ...


class Machines(Protocol):
    """A provider of machines, as the runner of one task uses it."""

    lease_seconds: float  # a machine that nobody has heard of for that long ends itself
    lost_seconds: float  # one that does not answer for that long is lost
    keep_seconds: float  # machines may wait for so long for the next task of their job; 0: never
    control: str  # a folder on each machine, best in memory, for small files; empty: in the task's own
    notice_url: str  # where a machine can learn that it will be taken back; empty: nowhere
    python: str  # the Python there
    power_off: str  # how a machine ends itself; empty: it cannot

    @property
    def may_have_rented(self) -> bool:
        """Whether a call that was never answered may have rented machines for the task."""
        ...

    def acquire(self, task_id: str, job_id: str, deployment: Deployment, had: Sequence[Machine]) -> Sequence[Machine]:
        """Those at hand and as many more as the deployment needs, by rank, rented now or by an earlier call for the task.

        Raises NoCapacityError or another error, and then none is rented for the task but those at hand; or
        PartlyRentedError, which tells what is.
        """
        ...

    def locate(self, machines: Sequence[Machine]) -> Sequence[Machine]:
        """The same machines with their addresses, as far as these are known by now.

        Raises NoCapacityError or another error where some will never have one.
        """
        ...

    def find(self, task_id: str) -> Sequence[Machine]:
        """Those of them that are still there."""
        ...

    def why_gone(self, machine: Machine) -> str:
        """What the provider says of the end of a machine, in plain words; empty: nothing."""
        ...

    def ended_at(self, machine: Machine) -> float | None:
        """When the machine ended, as the provider says; None: it has not, or the provider does not say when."""
        ...

    def adopt(self, machines: Sequence[Machine], task_id: str) -> None:
        """Have the provider's records say that these belong to another task now."""
        ...

    def release(self, machines: Sequence[Machine]) -> None:
        """Give them back; those that are gone are passed over."""
        ...

    def renewed(self, machines: Sequence[Machine], until: float) -> None:
        """Take note in the provider's records that the lease was renewed."""
        ...

    def reach(self, machine: Machine) -> Reach:
        """The way to it; nothing is connected yet."""
        ...


class PlainMachines:
    """The answers of machines that never wait for another task, give no notice, and whose provider says nothing of ends.

    A subclass brings lease_seconds, lost_seconds, python, acquire, find, release and reach.
    """

    keep_seconds = 0.0
    control = ""
    notice_url = ""
    power_off = ""
    may_have_rented = False

    def locate(self, machines: Sequence[Machine]) -> Sequence[Machine]:
        """What is rented has an address."""
        return machines

    def why_gone(self, machine: Machine) -> str:
        """Nobody says."""
        return ""

    def ended_at(self, machine: Machine) -> float | None:
        """Nobody says."""
        return None

    def adopt(self, machines: Sequence[Machine], task_id: str) -> None:
        """None waits for another task."""

    def renewed(self, machines: Sequence[Machine], until: float) -> None:
        """The lease is on the machine, and nowhere else."""


class Notes(Protocol):
    """Words for whoever goes on after a kill."""

    def read_notes(self) -> dict[str, str]:
        """What was left for us."""
        ...

    def note(self, name: str, value: str) -> None:
        """Leave a word, before doing what the next one may have to take over."""
        ...


class NoNotes:
    """Of whoever asks a provider without a runner: nothing is taken over, and nothing left."""

    def read_notes(self) -> dict[str, str]:
        return {}

    def note(self, name: str, value: str) -> None:
        return None


class OpenMachines(Protocol):
    """What Spec.provider names: gives the machines of a cloud to a runner."""

    def __call__(self, home: Path, options: Mapping[str, Any], notes: Notes) -> Machines:
        """Open them; the home is the cloud's own folder."""
        ...
