"""Notices when the program saves to a folder of its own (MLCD_CHECKPOINT_PATH), and reports the count at that moment.

Whoever commits that folder sees only when its files were changed. How much had been trained at that moment is known in
this process alone: a thread checks the folder and reports the count at each change.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlcd.worker.guard import guard
from mlcd.worker.trees import files_inside

_POLL_SECONDS = 0.15
# × the time of a check passes before the next: a folder of many files must not slow the training.
_POLL_SHARE = 20.0


_WRITES = os.O_WRONLY | os.O_RDWR


class Saves:
    """Checks a folder again and again, and reports the time of each change of its files."""

    def __init__(self, folder: Path, on_change: Callable[[float], None]) -> None:
        self._folder = folder
        self._on_change = on_change
        self._changed_at = time.time()  # what was there before is of an earlier attempt
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start checking; twice is harmless."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mlcd-saves", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Check for the last time."""
        if self._thread is not None:
            self._ended.set()
            self._check()

    def _run(self) -> None:
        pause = 0.0
        while not self._ended.wait(max(_POLL_SECONDS, pause)):
            began = time.monotonic()
            self._check()
            pause = _POLL_SHARE * (time.monotonic() - began)

    @guard(None)
    def _check(self) -> None:
        changed_at = _last_change(self._folder)
        if changed_at > self._changed_at:
            self._changed_at = changed_at
            self._on_change(changed_at)


def watch_files(folder: Path, mark: Callable[[], None]) -> None:
    """Call `mark` when the program opens a file below the folder for writing, or renames one to there.

    Libraries that write by themselves are not seen here; torch.save has a hook of its own.
    """
    start = f"{folder}{os.sep}"

    def audit(event: str, args: Any) -> None:
        try:
            if event == "open" and args[2] & _WRITES:
                path = args[0]
            elif event == "os.rename":
                path = args[1]
            else:
                return
            if not isinstance(path, int) and os.path.abspath(os.fsdecode(path)).startswith(start):  # noqa: PTH100
                mark()
        except Exception:  # noqa: S110  # what is raised here would keep the program from its file
            pass

    sys.addaudithook(audit)


def _last_change(folder: Path) -> float:
    """When the newest file below a folder was changed, in seconds since the epoch; 0: there is none."""
    newest = 0
    for file in files_inside(folder):
        try:
            newest = max(newest, file.stat().st_mtime_ns)
        except OSError:  # gone meanwhile
            continue
    return newest / 1e9
