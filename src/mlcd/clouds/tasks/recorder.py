"""Writes the state of a task, also when the disk is full."""

from __future__ import annotations

import errno
import math
import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

from mlcd.clouds.tasks.files import Files, StateKind, facts_of
from mlcd.clouds.tasks.outcome import Outcome

BEAT_SECONDS = 0.5
RESERVE_BYTES = 65536  # room for the final state
FINAL_SECONDS = 20.0
FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_BYTES = 65536


class Recorder(Generic[StateKind]):
    """The one writer of a task's state while its runner lives."""

    full_seconds = 0.0  # a disk may be full for so long before a change is an error

    def __init__(self, files: Files[Any, StateKind], state: StateKind) -> None:
        self.files = files
        self.state = state
        self._reserve = files.root / "reserve"
        self._beat_at = -math.inf
        self._full_since: float | None = None
        self._changing = threading.RLock()

    def begin(self) -> None:
        """Take the task over: from now on it counts as started."""
        self.files.write_state(self.state)
        self._reserve.write_bytes(os.urandom(RESERVE_BYTES))  # no file system can store this as nothing

    def change(self, **facts: Any) -> None:
        """Write down what has changed."""
        with self._changing:
            self.state = replace(self.state, **facts)
            self._write()

    def beat(self, **facts: Any) -> None:
        """Give a sign of life, not too often."""
        with self._changing:
            self.state = replace(self.state, **facts)
            if time.monotonic() - self._beat_at > BEAT_SECONDS:
                self._write()

    def finish(self, outcome: Outcome, ended_at: float) -> None:
        """Write the final state, into the room kept for it if there is no other."""
        with self._changing:
            self.state = replace(self.state, **facts_of(outcome), ended_at=ended_at)
            self._reserve.unlink(missing_ok=True)
            deadline = time.monotonic() + FINAL_SECONDS
            while not self._written() and time.monotonic() < deadline:
                time.sleep(0.2)

    def _written(self) -> bool:
        try:
            self.files.write_state(self.state)
        except FileNotFoundError:
            return True  # the folder was removed: there is no one to tell
        except OSError as error:
            if error.errno not in FULL:
                raise
            return False
        return True

    def _write(self) -> None:
        self._beat_at = time.monotonic()
        if self._written():
            self._full_since = None
            return
        self._full_since = self._full_since or self._beat_at
        if self._beat_at - self._full_since >= self.full_seconds:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.files.root))


def disk_is_full(folder: Path) -> bool:
    """Whether nothing can be written there any more."""
    with suppress(OSError):
        room = os.statvfs(folder)
        return room.f_bavail * room.f_frsize < FULL_BYTES
    return False
