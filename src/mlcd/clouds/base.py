"""The border to the outside world that sells machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from mlcd.core.clock import Clock
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Handle, Owned, Task, TaskStatus
from mlcd.settings import Settings


class Cloud(Protocol):
    """A seller of machines. Every call returns soon; waiting is the engine's, on this cloud's clock.

    A subclass of mlcd.testing.CloudContract checks all the promises below.
    """

    name: str
    clock: Clock  # the time that this cloud lives in
    poll_seconds: float  # how often it is worth asking
    ending_seconds: float  # billed from the end of a program until what it made is home
    start_seconds: float | None  # from launch to the first step; None: learnt from the probes

    def offers(self) -> Iterable[Offer]:
        """What is for sale now."""
        ...

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """How long a probe takes here in all, if warming up and measuring takes that long."""
        ...

    def launch(self, task: Task, deployment: Deployment, secrets: Mapping[str, str]) -> Handle:
        """Start the task and return at once; the same task.id twice starts once and gives the same handle.

        Raises NoCapacityError or another CloudError, and then nothing runs.
        """
        ...

    def status(self, handle: Handle) -> TaskStatus:
        """State, progress and money so far. An unknown handle is LOST."""
        ...

    def stop(self, handle: Handle) -> None:
        """Ask it to end: SIGTERM, the task's grace, SIGKILL. Returns at once; twice, or unknown, is quiet."""
        ...

    def owned(self) -> Iterable[Owned]:
        """All that still costs money, whoever started it, for sweeping."""
        ...

    def close(self) -> None:
        """Let go of connections; what runs goes on."""
        ...


@runtime_checkable
class Recorded(Protocol):
    """A cloud that answers from recordings, and so knows only the deployments that were recorded."""

    def deployments(self) -> tuple[Deployment, ...]:
        """Those."""
        ...

    def samples_at(self, samples: float) -> Mapping[int, float]:
        """Batch size → samples to train, where `samples` are enough at the batch size that needs least."""
        ...


class CloudFactory(Protocol):
    """What an entry point of the group mlcd.clouds names."""

    def __call__(self, settings: Settings, options: Mapping[str, str]) -> Cloud:
        """Open the cloud; the options are the job's own, such as the trace to replay."""
        ...
