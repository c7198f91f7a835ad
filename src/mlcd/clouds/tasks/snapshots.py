"""Watches the folder to which a program writes its checkpoints, and commits it whenever a save is finished.

A save is finished when the files have come to rest, no process of the program has one of those that changed open for
writing, and those of a known format have their end (see formats.py).
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from mlcd.clouds.checkpoints import (
    QUIET_SECONDS,
    Signature,
    Trained,
    changed_at,
    commit,
    newest_complete,
    prune,
    restore,
    signature,
)
from mlcd.clouds.tasks.formats import cut_off, holds_a_model
from mlcd.clouds.tasks.processes import family, open_for_writing, seen
from mlcd.worker.trees import in_words

LOOK_SECONDS = 0.25
LOOK_SHARE = 20.0  # × what a look takes is waited for, at least
# A program that saves again and again may never leave its folder at rest for long. After a while a shorter rest will do, and
# in the end none, if the folder holds still while it is copied.
RESTLESS_SECONDS = 3.0
SHORT_QUIET_SECONDS = 0.3
SHORT_LOOK_SECONDS = 0.1
NEVER_AT_REST_SECONDS = 10.0
# A file may be kept open for good, a journal or a table of metrics: one that was not written to for a while is finished.
OPEN_SECONDS = 30.0
# Then the folder is committed as it is: a doubtful checkpoint is better than none.
NEVER_FINISHED_SECONDS = 120.0
COUNT_SECONDS = 3.0  # that the program may take to tell how much it had trained when it saved


class Snapshots:
    """Commits what the program saves. Copying is done beside, so that signals and limits are heard meanwhile."""

    def __init__(
        self,
        folder: Path,
        into: Path,
        keep: int,
        trained_at: Callable[[float], Trained],
        task_id: str,
        say: Callable[[str], None],
        roots: Callable[[], set[int]] = lambda: set(),
    ) -> None:
        # Where it lies before the program starts: what a program puts in its place later is not entered.
        self._folder = Path(os.path.realpath(folder))
        self._into = into
        self._keep = keep
        self._trained_at = trained_at
        self._task_id = task_id
        self._say = say
        self._roots = roots  # the processes of the program that were started first
        self._committed: Signature = signature(self._folder)
        self._left_out: set[str] = set()  # that were told of
        self._held: frozenset[str] = frozenset()  # open when the last checkpoint was committed, as logs are
        # At the last look; whether it was finished.
        self._seen: tuple[Signature, bool] = (self._committed, True)
        self._next_look = 0.0
        self._restless_since: float | None = None
        self._copying: threading.Thread | None = None

    def look(self) -> None:
        """Commit the folder if it has changed and the save is finished; returns at once."""
        if time.monotonic() < self._next_look or (self._copying and self._copying.is_alive()):
            return
        began = time.monotonic()
        self._look()
        pause = SHORT_LOOK_SECONDS if self._restless_seconds > RESTLESS_SECONDS else LOOK_SECONDS
        self._next_look = began + max(pause, LOOK_SHARE * (time.monotonic() - began))

    def finish(self, trusted: bool, ended_at: float) -> None:
        """Commit the last state, if the program ended in order or had finished writing before it ended."""
        if self._copying is not None:
            self._copying.join()
        files = self._signature()
        if files != self._committed and self._finished_before(files, trusted, ended_at):
            self._commit(files, self._trained_at(changed_at(files)).samples)

    def _look(self) -> None:
        files = self._signature()
        # Asked each time: a log's lines get their time when they are read.
        trained = self._trained_at(changed_at(files))
        if files == self._committed:
            self._restless_since = None
            return
        self._seen = (files, self._finished(files))
        if self._at_rest(files, trained):
            self._copying = threading.Thread(target=self._commit, args=(files, trained.samples), name="checkpoint")
            self._copying.start()

    def _at_rest(self, files: Signature, trained: Trained) -> bool:
        self._restless_since = self._restless_since or time.monotonic()
        restless, rest = self._restless_seconds, time.time() - changed_at(files)
        if restless <= NEVER_FINISHED_SECONDS and not self._seen[1]:
            return False
        if not trained.known and rest < COUNT_SECONDS:
            return False
        quiet = SHORT_QUIET_SECONDS if restless > RESTLESS_SECONDS else QUIET_SECONDS
        return restless > NEVER_AT_REST_SECONDS or rest >= quiet

    def _finished(self, files: Signature) -> bool:
        """Whether none of the files that changed is being written or lacks its end."""
        changed = files - self._committed
        lately = {name for name, _, when in changed if time.time() - when / 1e9 < OPEN_SECONDS}
        return not (lately & self._open() - self._held) and self._have_their_ends(files)

    def _finished_before(self, files: Signature, trusted: bool, ended_at: float) -> bool:
        """Whether the program, which is gone, had finished: nobody can ask any more what it has open."""
        if trusted and not self._have_their_ends(files):
            self._say("what the program saved last is cut off and was not kept")
        if trusted:
            return self._have_their_ends(files)
        rested = ended_at - changed_at(files) >= SHORT_QUIET_SECONDS
        return rested and self._seen == (files, True)

    def _have_their_ends(self, files: Signature) -> bool:
        return not any(cut_off(self._folder / name) for name, _, _ in files - self._committed)

    def _open(self) -> frozenset[str]:
        """What the program has open for writing."""
        pids = {process.pid for process in family(self._roots(), seen())} if self._roots() else set()
        return open_for_writing(pids, self._folder)

    @property
    def _restless_seconds(self) -> float:
        """How long the folder has been changing without a checkpoint."""
        return 0.0 if self._restless_since is None else time.monotonic() - self._restless_since

    def _commit(self, files: Signature, samples: float) -> None:
        try:
            is_open = self._open()
            logs = frozenset(name for name in is_open & self._held if not holds_a_model(name))
            if commit(self._folder, self._into, samples, self._task_id, files, logs, self._tell_left_out):
                self._committed, self._held = files, is_open
                self._restless_since = None
                prune(self._into, self._keep)
        except (OSError, shutil.Error) as error:
            self._say(f"a checkpoint could not be kept: {error}")

    def _signature(self) -> Signature:
        """Of the folder; nothing of it has changed where a link took its place."""
        if os.path.realpath(self._folder) == str(self._folder):
            return signature(self._folder)
        self._tell_left_out([self._folder.name])
        return self._committed

    def _tell_left_out(self, names: list[str]) -> None:
        fresh = [name for name in names if name not in self._left_out]
        self._left_out.update(fresh)
        if fresh:
            self._say(f"not in the checkpoint, because it leads out of the folder or is no file: {in_words(fresh)}")


def put_back(checkpoints: Path, into: Path) -> Path | None:
    """Restore the newest complete checkpoint, if there is one, to where the program looks for it."""
    newest = newest_complete(checkpoints)
    if newest is not None:
        restore(newest, into)
    return newest
