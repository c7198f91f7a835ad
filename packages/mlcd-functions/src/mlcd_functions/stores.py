"""Where a task's objects are, and the parameter store that lives only while it trains."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from mlcd.errors import CloudError, UserError
from mlcd.sync import SyncError, remove_task
from mlcd_functions.messages import WRITABLE
from mlcd_functions.objects.base import open_object_store
from mlcd_functions.objects.errors import ObjectError
from mlcd_functions.settings import FunctionsSettings
from mlcd_functions.valkey_server import Servers, start_servers

RENTED = "ec2"  # as functions.parameters
AWS = "aws"  # as functions.endpoint


def objects_url(settings: FunctionsSettings, home: Path, task_id: str) -> str:
    """The task's part of the object store; a bucket at AWS is in the functions' region, unless it says another."""
    base = settings.objects or f"file://{quote(str(home / 'objects'))}"
    place, _, query = base.partition("?")
    if not query and settings.endpoint and bills_requests(settings):
        query = f"region={quote(settings.region)}"
    return f"{place.rstrip('/')}/{quote(task_id, safe='')}" + (f"?{query}" if query else "")


def bills_requests(settings: FunctionsSettings) -> bool:
    """Whether every request to the object store costs money."""
    return settings.objects.startswith("s3://")


def check_writable(url: str) -> None:
    """Refuse a store that cannot be written to, before anything is paid for."""
    try:
        open_object_store(url).put(WRITABLE, b"")
    except ObjectError as error:
        raise CloudError(
            f"The object store cannot be used: {error.message}",
            error.hint or "Look at the setting functions.objects; `mlcd check functions` tries it.",
        ) from error


def rents_store(settings: FunctionsSettings) -> bool:
    """Whether several functions get a parameter store on a machine of their own: in a VPC at AWS, unless another is named."""
    by_itself = settings.endpoint == AWS and not settings.parameters and _in_vpc(settings)
    return settings.parameters == RENTED or by_itself


def refuse_storeless(settings: FunctionsSettings) -> None:
    """Raise where several functions would have no parameter store that they reach."""
    without = settings.endpoint and not settings.parameters and not rents_store(settings)
    beyond = settings.parameters == RENTED and settings.endpoint == AWS and not _in_vpc(settings)
    if without or beyond:
        raise UserError(
            "Several functions at AWS need a parameter store, and reach one that mlcd rents in their VPC alone.",
            "Set functions.subnets and functions.security_groups, or name a store of yours with functions.parameters.",
        )


def _in_vpc(settings: FunctionsSettings) -> bool:
    return bool(settings.subnets and settings.security_groups)


class ParameterStore(Protocol):
    """What the functions of one task exchange gradients through."""

    anew: bool  # the last start has made a new one, of which functions that run do not know

    @property
    def url(self) -> str:
        """What the programs are told; it may hold a password. Empty: there is none."""
        ...

    def start(self) -> None:
        """Have one that answers. Raises what refuses it; `stop` ends what was begun."""
        ...

    def alive(self) -> bool:
        """Whether it serves, as far as that is known."""
        ...

    def revive(self) -> None:
        """Have another one where it does not."""
        ...

    def stop(self) -> None:
        """End it, or clear up after the task in one that others share; twice is quiet."""
        ...


class NoStore:
    """Of a single function, which needs none."""

    url = ""
    anew = False

    def start(self) -> None:
        """Nothing to have."""

    def alive(self) -> bool:
        """It is not missed."""
        return True

    def revive(self) -> None:
        """Nothing to have."""

    def stop(self) -> None:
        """Nothing to end."""


class NamedStore:
    """The user's own, which several tasks may share; whether it lives is not known."""

    anew = False

    def __init__(self, url: str, task_id: str) -> None:
        self.url = url
        self._task_id = task_id

    def start(self) -> None:
        """It is there."""

    def alive(self) -> bool:
        """As far as anybody knows."""
        return True

    def revive(self) -> None:
        """It is its owner's to start."""

    def stop(self) -> None:
        """Remove what the task left."""
        with suppress(SyncError):  # it cannot be reached from here: the keys expire
            remove_task(self.url, self._task_id)


class LocalStore:
    """A server of this computer, which ends with the runner that started it."""

    anew = True

    def __init__(self, memory_mb: int) -> None:
        self._memory_mb = memory_mb
        self._servers: Servers | None = None

    @property
    def url(self) -> str:
        """By its socket in the file system."""
        return self._servers.socket_url if self._servers is not None else ""

    def start(self) -> None:
        """Start one."""
        try:
            self._servers = start_servers(memory_mb=self._memory_mb)
        except SyncError as error:
            raise CloudError(f"The parameter store did not start: {error.message}") from error

    def alive(self) -> bool:
        """Whether its process runs; one that was not started is not lost."""
        return self._servers is None or all(process.poll() is None for process in self._servers.processes)

    def revive(self) -> None:
        """Start another one where it has died, or this runner has found none."""
        if self._servers is None or not self.alive():
            self.stop()
            self.start()

    def stop(self) -> None:
        """End it."""
        if self._servers is not None:
            for process in self._servers.processes:
                process.kill()  # it keeps nothing, and a runner's children do not hear a SIGTERM
            self._servers.stop()
            self._servers = None
