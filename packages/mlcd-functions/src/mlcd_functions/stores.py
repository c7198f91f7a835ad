"""Where a task's objects are, and the parameter store that lives only while it trains."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from mlcd.errors import CloudError
from mlcd.sync import SyncError, remove_task
from mlcd_functions.messages import WRITABLE
from mlcd_functions.objects.base import open_object_store
from mlcd_functions.objects.errors import ObjectError
from mlcd_functions.settings import FunctionsSettings
from mlcd_functions.valkey_server import Servers, start_servers


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


class ParameterServers:
    """The store between the functions of one task; a single function needs none."""

    def __init__(self, settings: FunctionsSettings, task_id: str, workers: int) -> None:
        self._settings = settings
        self._task_id = task_id
        self._needed = workers > 1
        self._servers: Servers | None = None

    @property
    def url(self) -> str:
        """What the programs are told; it may hold a password."""
        if self._settings.parameters and self._needed:
            return self._settings.parameters
        return self._servers.socket_url if self._servers is not None else ""

    def start(self) -> None:
        """Have one, if the settings do not name another."""
        if not self._needed or self._settings.parameters:
            return
        if self._settings.endpoint:
            raise CloudError(
                "Functions at AWS need a parameter store that they can reach.",
                "Name one with the setting functions.parameters: rediss://HOST:PORT.",
            )
        try:
            self._servers = start_servers(memory_mb=self._settings.store_memory_mb)
        except SyncError as error:
            raise CloudError(f"The parameter store did not start: {error.message}") from error

    def alive(self) -> bool:
        """Whether ours runs; of another it is not known."""
        return self._servers is None or all(process.poll() is None for process in self._servers.processes)

    def revive(self) -> None:
        """Start another one where ours has died."""
        if not self.alive():
            self.stop()
            self.start()

    def stop(self) -> None:
        """End ours, or clear up after the task in one that it shares; twice is quiet."""
        if self._needed and self._settings.parameters:
            with suppress(SyncError):  # it cannot be reached from here: the keys expire
                remove_task(self._settings.parameters, self._task_id)
        if self._servers is not None:
            for process in self._servers.processes:
                process.kill()  # it keeps nothing, and a runner's children do not hear a SIGTERM
            self._servers.stop()
            self._servers = None
