"""Watches the folder to which a program writes its checkpoints, and commits it whenever it has come to rest."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from mlcd.clouds.checkpoints import (
    QUIET_SECONDS,
    Signature,
    changed_at,
    commit,
    newest_complete,
    prune,
    restore,
    signature,
)

LOOK_SECONDS = 0.5
# A program that saves again and again may never leave its folder at rest for long. After a while a shorter rest will do, and
# in the end none, if the folder holds still while it is copied.
RESTLESS_SECONDS = 3.0
SHORT_QUIET_SECONDS = 0.3
SHORT_LOOK_SECONDS = 0.1
NEVER_AT_REST_SECONDS = 10.0


class Snapshots:
    """Commits what the program saves. Copying is done beside, so that signals and limits are heard meanwhile."""

    def __init__(
        self,
        folder: Path,
        into: Path,
        keep: int,
        samples_at: Callable[[float], float],
        task_id: str,
        say: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._into = into
        self._keep = keep
        self._samples_at = samples_at
        self._task_id = task_id
        self._say = say
        self._committed: Signature = signature(folder)
        self._looked_at = 0.0
        self._restless_since: float | None = None
        self._copying: threading.Thread | None = None

    def look(self) -> None:
        """Commit the folder if it has changed and come to rest; returns at once."""
        pause = SHORT_LOOK_SECONDS if self._restless_seconds > RESTLESS_SECONDS else LOOK_SECONDS
        if time.monotonic() - self._looked_at < pause or (self._copying and self._copying.is_alive()):
            return
        self._looked_at = time.monotonic()
        files = signature(self._folder)
        samples = self._samples_at(
            changed_at(files)
        )  # asked each time: a log's lines get their time when they are read
        if files == self._committed:
            self._restless_since = None
        elif self._at_rest(files):
            self._copying = threading.Thread(target=self._commit, args=(files, samples), name="checkpoint")
            self._copying.start()

    def finish(self, trusted: bool, ended_at: float) -> None:
        """Commit the last state, if the program ended in order or had finished writing before it ended."""
        if self._copying is not None:
            self._copying.join()
        files = signature(self._folder)
        if files != self._committed and (trusted or ended_at - changed_at(files) >= SHORT_QUIET_SECONDS):
            self._commit(files, self._samples_at(changed_at(files)))

    def _at_rest(self, files: Signature) -> bool:
        self._restless_since = self._restless_since or time.monotonic()
        restless = self._restless_seconds
        quiet = SHORT_QUIET_SECONDS if restless > RESTLESS_SECONDS else QUIET_SECONDS
        return restless > NEVER_AT_REST_SECONDS or time.time() - changed_at(files) >= quiet

    @property
    def _restless_seconds(self) -> float:
        """How long the folder has been changing without a rest."""
        return 0.0 if self._restless_since is None else time.monotonic() - self._restless_since

    def _commit(self, files: Signature, samples: float) -> None:
        try:
            if commit(self._folder, self._into, samples, self._task_id):
                self._committed = files
                self._restless_since = None
                prune(self._into, self._keep)
        except (OSError, shutil.Error) as error:
            self._say(f"a checkpoint could not be kept: {error}")


def put_back(checkpoints: Path, into: Path) -> Path | None:
    """Restore the newest complete checkpoint, if there is one, to where the program looks for it."""
    newest = newest_complete(checkpoints)
    if newest is not None:
        restore(newest, into)
    return newest
