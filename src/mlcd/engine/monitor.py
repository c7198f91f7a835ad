"""Those who look on while a job is driven: notifications and telemetry, each in a thread of its own.

They read the store and never touch the training: one that is slow, broken or away delays nothing but itself.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeVar

from mlcd.core.records import JobRecord
from mlcd.engine.context import job_folder
from mlcd.engine.secrets import read_secrets
from mlcd.errors import MlcdError
from mlcd.notify import open_notifier
from mlcd.settings import Settings
from mlcd.store import Store
from mlcd.telemetry.runs import open_runs
from mlcd.telemetry.traces import open_traces

T = TypeVar("T")

LOOK_SECONDS = 1.0
LAST_SECONDS = 45.0  # for the last look of all of them together; what is not sent by then is given up
LONGEST_PAUSE = 60.0


class Observer(Protocol):
    """Looks at a job now and then."""

    def look(self) -> None:
        """See what is new and do something about it; may take its time, may raise."""

    def close(self) -> None:
        """The job rests: there was a last look, and there will be no more."""


Opener = Callable[[Store, Settings, JobRecord, Mapping[str, str]], Observer | None]  # None: not wanted
OPENERS: tuple[tuple[str, Opener], ...] = (
    ("Notifications", open_notifier),
    ("Traces of OpenTelemetry", open_traces),
    ("Runs of MLflow", open_runs),
)


@contextmanager
def observed(
    store: Store, settings: Settings, job_id: str, openers: tuple[tuple[str, Opener], ...] = OPENERS
) -> Iterator[Callable[[], None]]:
    """Gives what lets them begin to look; on leaving each has a last look, for as long as that may take."""
    over = threading.Event()
    threads: list[threading.Thread] = []

    def begin() -> None:
        secrets = read_secrets(job_folder(settings, job_id))
        for name, opener in openers:
            thread = _Watch(store, settings, job_id, secrets, name, opener, over)
            threads.append(thread)
            thread.start()

    try:
        yield begin
    finally:
        over.set()
        give_up_at = time.monotonic() + LAST_SECONDS
        for thread in threads:
            thread.join(max(0.0, give_up_at - time.monotonic()))


class _Watch(threading.Thread):
    """One observer, from its opening to its last look."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        job_id: str,
        secrets: Mapping[str, str],
        name: str,
        opener: Opener,
        over: threading.Event,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._store = store
        self._settings = settings
        self._job_id = job_id
        self._secrets = secrets
        self._opener = opener
        self._over = over
        self._troubles = 0

    def run(self) -> None:
        """Look until it is over, and once more."""
        observer = self._quietly(self._open)
        if observer is None:
            return
        while not self._over.wait(self._pause()):
            self._quietly(observer.look)
        self._quietly(observer.look)
        self._quietly(observer.close)

    def _open(self) -> Observer | None:
        return self._opener(self._store, self._settings, self._store.job(self._job_id), self._secrets)

    def _pause(self) -> float:
        return float(min(LOOK_SECONDS * 2**self._troubles, LONGEST_PAUSE))

    def _quietly(self, act: Callable[[], T]) -> T | None:
        """Do it; what goes wrong is printed once and is nobody else's trouble."""
        try:
            done = act()
        except Exception as error:  # other people's libraries may raise anything, and the training goes on
            self._complain(error)
            self._troubles += 1
            return None
        self._troubles = 0
        return done

    def _complain(self, error: Exception) -> None:
        if not isinstance(error, MlcdError):
            traceback.print_exc(file=sys.stderr)
        words = error.message if isinstance(error, MlcdError) else f"{type(error).__name__} (see controller.log)"
        hint = error.hint if isinstance(error, MlcdError) else ""
        try:
            text = " ".join(part for part in (f"{self.name} do not work: {words}", hint) if part)
            self._store.add_event_once(self._job_id, time.time(), "warning", text, {"observer": self.name})
        except MlcdError as trouble:  # the database is away; the controller itself will say so
            sys.stderr.write(f"{trouble}\n")
