"""Chooses an environment for each event: a warm one if there is one, else a new one if the limits allow."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlcd.clouds.tasks.processes import family, private_bytes, seen
from mlcd_functions.service.environment import Environment, Outcome
from mlcd_functions.service.faults import ApiFault, too_many
from mlcd_functions.service.functions import Function
from mlcd_functions.service.limits import Limits, open_limits, vcpus
from mlcd_functions.service.reports import Ledger

WATCH_SECONDS = 0.25
ASYNC_TRIES = 3  # Lambda tries an asynchronous event twice more
ASYNC_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class PoolSettings:
    """What this account may do."""

    concurrency: int = 1000  # environments that handle an event at the same time
    warm_seconds: float = 300.0  # an environment that nobody needs is kept for so long
    cpu_scale: float = 1.0  # of the share that Lambda would give
    isolated: bool = False  # each environment has a network of its own


class Pool:
    """All environments."""

    def __init__(self, root: Path, settings: PoolSettings, mark: str) -> None:
        self._root = root
        self._settings = settings
        self._busy: list[Environment] = []
        self._idle: list[Environment] = []
        self._lock = threading.Lock()
        self._ledger = Ledger(root / "invocations.jsonl")
        self._limits: Limits = open_limits(mark, _family_of)
        self._quiet_since = time.monotonic()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    @property
    def concurrency(self) -> int:
        """The most that may be busy at once."""
        return self._settings.concurrency

    @property
    def quiet_seconds(self) -> float:
        """How long there has been no environment."""
        with self._lock:
            return 0.0 if self._busy or self._idle else time.monotonic() - self._quiet_since

    def invoke(self, function: Function, payload: bytes) -> Outcome:
        """Have an environment handle the event, and wait for it."""
        environment = self._take(function)
        try:
            if not environment.pid:
                self._start(environment)
            outcome = environment.handle(payload)
            self._ledger.add(outcome.report)
            return outcome
        finally:
            self._give_back(environment)

    def invoke_later(self, function: Callable[[], Function], payload: bytes) -> None:
        """Have it handled in the background, up to three times, as Lambda does with `Event`."""
        threading.Thread(target=self._in_background, args=(function, payload), daemon=True).start()

    def forget(self, name: str) -> None:
        """End every environment of a function that was deleted."""
        with self._lock:
            idle = [each for each in self._idle if each.function.name == name]
            self._idle = [each for each in self._idle if each not in idle]
            busy = [each for each in self._busy if each.function.name == name]
        for environment in busy:
            environment.kill()
        self._close(idle)

    def close(self) -> None:
        """End everything."""
        with self._lock:
            everything, self._idle = [*self._idle, *self._busy], []
        for environment in everything:
            environment.kill()

    def _take(self, function: Function) -> Environment:
        with self._lock:
            running = sum(each.function.name == function.name for each in self._busy)
            if function.reserved is not None and running >= function.reserved:
                raise too_many(reserved=True)
            if len(self._busy) >= self._settings.concurrency:
                raise too_many(reserved=False)
            environment = self._warm(function) or Environment(function, self._root, self._settings.isolated)
            self._busy.append(environment)
            return environment

    def _warm(self, function: Function) -> Environment | None:
        """The one that was used last; those that are used least may then be let go."""
        fits = [
            each
            for each in self._idle
            if (each.function.name, each.function.revision) == (function.name, function.revision) and each.alive
        ]
        if not fits:
            return None
        self._idle.remove(fits[-1])
        return fits[-1]

    def _start(self, environment: Environment) -> None:
        environment.start()
        memory_mb = environment.function.memory_mb
        share = vcpus(memory_mb) * self._settings.cpu_scale
        self._limits.confine(environment.id, environment.pid, share, memory_mb << 20)

    def _give_back(self, environment: Environment) -> None:
        environment.idle_since = time.monotonic()
        with self._lock:
            self._busy.remove(environment)
            self._quiet_since = time.monotonic()
            if environment.alive:
                self._idle.append(environment)
                return
        self._close([environment])

    def _in_background(self, function: Callable[[], Function], payload: bytes) -> None:
        for _ in range(ASYNC_TRIES):
            try:
                if not self.invoke(function(), payload).error:
                    return
            except ApiFault as fault:
                if fault.status != 429:
                    return
            time.sleep(ASYNC_PAUSE_SECONDS)

    def _watch(self) -> None:
        """Let go of what nobody needs, and hold everyone to their memory."""
        while True:
            time.sleep(WATCH_SECONDS)
            try:
                self._let_go()
                self._look_at_memory()
            except OSError:  # a folder that was removed under us must not end the watch
                traceback.print_exc(file=sys.stderr)

    def _let_go(self) -> None:
        oldest = time.monotonic() - self._settings.warm_seconds
        with self._lock:
            gone = [each for each in self._idle if not each.alive or each.idle_since < oldest]
            self._idle = [each for each in self._idle if each not in gone]
            self._quiet_since = time.monotonic() if gone else self._quiet_since
        self._close(gone)

    def _look_at_memory(self) -> None:
        with self._lock:
            busy = [each for each in self._busy if each.pid]
        everyone = seen() if busy else []
        for environment in busy:
            members = family({environment.pid}, everyone)
            limit = environment.function.memory_mb << 20
            used = sum(process.memory_bytes for process in members)
            if used > limit:  # pages shared by forked processes count once: asked for only when it matters
                used = sum(private_bytes(process.pid) for process in members)
            environment.peak_bytes = max(environment.peak_bytes, used)
            if used > limit:
                environment.kill(for_memory=True)

    def _close(self, environments: list[Environment]) -> None:
        for environment in environments:
            environment.close()
            self._limits.release(environment.id)


def _family_of(pid: int) -> list[int]:
    return [process.pid for process in family({pid}, seen())]
