"""The border to the outside world that rents out machines: what a cloud does, and what its entry point says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mlcd.errors import MissingExtraError, MlcdError, UserError, did_you_mean

if TYPE_CHECKING:  # processes that look after tasks import a cloud's package, and start often
    from mlcd.core.clock import Clock
    from mlcd.core.job import Job
    from mlcd.core.machines import Deployment, Offer
    from mlcd.core.study import ProbeTime
    from mlcd.core.task import Handle, Owned, Task, TaskStatus
    from mlcd.core.view import Finding
    from mlcd.settings import Section, Settings


class Cloud(Protocol):
    """A provider of machines. Every call returns soon; waiting is the engine's, on this cloud's clock.

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


@runtime_checkable
class Particular(Protocol):
    """A cloud on which not every program can run."""

    def refuse_program(self, job: Job, deployments: Sequence[Deployment]) -> None:
        """Raise InvalidJobError where the job's program cannot run on one of these, as far as one can tell here."""
        ...


class CloudFactory(Protocol):
    """Opens a cloud."""

    def __call__(self, settings: Settings, options: Mapping[str, str]) -> Cloud:
        """Open it; the options are the job's own, such as the trace to replay."""
        ...


@dataclass(frozen=True)
class CloudPlugin:
    """What an entry point of the group mlcd.clouds names: how to open the cloud, and what else there is to know of it.

    A plain CloudFactory will do for a cloud without settings.
    """

    name: str  # the same as the entry point's
    open: CloudFactory  # with its imports inside: naming a cloud must not import its libraries
    settings: type[Section] | None = None  # its table in the file; see mlcd.settings.setting
    options: frozenset[str] = frozenset()  # that jobs may give
    check: Callable[[Settings], Iterable[Finding]] | None = None  # for `mlcd check NAME`; None: offers are listed
    install: str = ""  # the command that installs the libraries it needs
    aliases: tuple[str, ...] = ()  # other names in job files and for `mlcd check`
    address: Callable[[Settings], str] | None = None  # where its programs run; "local": here; None: elsewhere
    page: str = ""  # of the documentation: a URL, or a file in docs/

    def __call__(self, settings: Settings, options: Mapping[str, str]) -> Cloud:
        """Open the cloud; refuse options that it does not know."""
        for option in sorted(options.keys() - self.options):
            hint = did_you_mean(option, self.options) or "Leave the option out."
            raise UserError(f"The cloud '{self.name}' has no option '{option}'.", hint)
        with self.libraries():
            return self.open(settings, options)

    def findings(self, settings: Settings) -> list[Finding]:
        """Whether everything is there that the cloud needs: its own check, or else whether it lists offers."""
        if self.check is None:
            return [offers_finding(lambda: self(settings, {}))]
        with self.libraries():
            return list(self.check(settings))

    @contextmanager
    def libraries(self) -> Iterator[None]:
        """Say what to install where a library is missing."""
        try:
            yield
        except ImportError as error:
            raise MissingExtraError(f"The cloud '{self.name}' needs {error.name}.", self.install) from error


def offers_finding(open_cloud: Callable[[], Cloud]) -> Finding:
    """Whether a cloud can be opened and lists offers."""
    from mlcd.core.view import Finding

    try:
        cloud = open_cloud()
        found = len(list(cloud.offers()))
        cloud.close()
    except MlcdError as error:
        return Finding("offers", False, error.message, error.hint)
    return Finding("offers", found > 0, f"{found} offers")
