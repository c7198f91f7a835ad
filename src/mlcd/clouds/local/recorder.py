"""Keeps the state of a task on disk, also when the disk is full."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlcd.clouds.local.files import State, TaskFiles
from mlcd.clouds.tasks.processes import birth
from mlcd.core.progress import Usage

BEAT_SECONDS = 0.5
FULL_SECONDS = 3.0  # a disk may be full for so long before the task is given up
RESERVE_BYTES = 65536  # room for the last words
LAST_WORDS_SECONDS = 20.0
FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_BYTES = 65536


class Recorder:
    """The one writer of a task's state while its supervisor lives."""

    def __init__(self, files: TaskFiles) -> None:
        self._files = files
        self._reserve = files.root / "reserve"
        self._beat_at = 0.0
        self._full_since: float | None = None
        self.state = State(pid=os.getpid(), birth=birth(os.getpid()))

    def begin(self) -> None:
        """Take the task over: from now on it counts as started."""
        self._files.write_state(self.state)
        self._reserve.write_bytes(os.urandom(RESERVE_BYTES))  # no file system can store this as nothing

    def change(self, **facts: Any) -> None:
        """Write down what has changed."""
        self.state = replace(self.state, **facts)
        self._write()

    def beat(self, usage: Usage) -> None:
        """Give a sign of life, not too often."""
        self.state = replace(self.state, usage=usage)
        if time.monotonic() - self._beat_at > BEAT_SECONDS:
            self._write()

    def finish(self, **facts: Any) -> None:
        """Write the last words, into the room kept for them if there is no other."""
        self.state = replace(self.state, **facts)
        self._reserve.unlink(missing_ok=True)
        deadline = time.monotonic() + LAST_WORDS_SECONDS
        while not self._written() and time.monotonic() < deadline:
            time.sleep(0.2)

    def _written(self) -> bool:
        try:
            self._files.write_state(self.state)
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
        if self._beat_at - self._full_since > FULL_SECONDS:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._files.root))


def disk_is_full(folder: Path) -> bool:
    """Whether nothing can be written there any more."""
    with suppress(OSError):
        room = os.statvfs(folder)
        return room.f_bavail * room.f_frsize < FULL_BYTES
    return False
