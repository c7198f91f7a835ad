"""Where a replay stands, kept in a file so that another process can go on with it: virtual time and tasks."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlcd.clouds.replay.task_run import TaskRun
from mlcd.core.serial import from_data, to_data
from mlcd.errors import CloudError


@dataclass(frozen=True)
class ReplayState:
    """The virtual time and every task launched so far."""

    now: float
    runs: dict[str, TaskRun] = field(default_factory=dict)


class StateFile:
    """A state on disk; each change reads what is there, changes it and writes it whole, one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> ReplayState:
        """What is there; a new replay begins now, at a whole second."""
        return self.change(lambda state: state)

    def change(self, change: Callable[[ReplayState], ReplayState]) -> ReplayState:
        """Apply a change; gives what is on disk afterwards."""
        try:
            with self._locked():
                before = self._read()
                state = change(before or ReplayState(float(int(time.time()))))
                if state != before:
                    self._write(state)
                return state
        except OSError as error:
            raise CloudError(f"The state of the replay cannot be kept in {self.path}: {error.strerror}.") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name(self.path.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> ReplayState | None:
        try:
            return from_data(ReplayState, json.loads(self.path.read_text()))
        except FileNotFoundError:
            return None
        except ValueError as error:
            hint = "Remove it to begin the replay anew."
            raise CloudError(f"The state of the replay in {self.path} cannot be understood.", hint) from error

    def _write(self, state: ReplayState) -> None:
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        part.write_text(json.dumps(to_data(state)))
        part.replace(self.path)


class ReplayClock:
    """A virtual clock whose time outlives the process."""

    def __init__(self, file: StateFile, now: float) -> None:
        self._file = file
        self._now = now

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += max(0.0, seconds)
        self._file.change(lambda state: replace(state, now=max(state.now, self._now)))
