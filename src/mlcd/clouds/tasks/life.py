"""The life of one task, as its runner leads it: the part that is the same on every cloud."""

from __future__ import annotations

import errno
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Generic

from mlcd.clouds.tasks.files import (
    Files,
    SpecKind,
    StateKind,
    checkpoint_folder,
    make_folders,
    working_folder,
)
from mlcd.clouds.tasks.outcome import COMPLETED, Ending, Outcome, of_error
from mlcd.clouds.tasks.recorder import FULL
from mlcd.core.task import EndCause
from mlcd.errors import MlcdError, UserError


class TaskLife(ABC, Generic[SpecKind, StateKind]):
    """One task, from what comes before its program to its final state. A cloud says what lies between.

    Whoever takes over from a runner that was killed begins at the beginning: each step looks first at what there is.
    """

    files_kind: ClassVar[type[Any]]
    # That the user must do something about.
    users_errors: ClassVar[tuple[type[MlcdError], ...]] = (UserError,)
    guarded: ClassVar[bool] = False  # whether a process that outlives the runner shall call `end_orphans`

    def __init__(self, files: Files[SpecKind, StateKind], spec: SpecKind, secrets: Mapping[str, str]) -> None:
        self._files = files
        self._spec = spec
        self._task = spec.task
        self._secrets = secrets
        self._home = Path(spec.home)
        self._folder = working_folder(spec.task, files)
        self._checkpoints = checkpoint_folder(spec.task, self._folder)

    @staticmethod
    def end_orphans(root: Path) -> None:
        """End what a runner that was killed has left running."""

    @abstractmethod
    def run(self) -> None:
        """Lead it, whatever happens, and leave the final state."""

    @abstractmethod
    def _steps(self) -> Outcome | None:
        """All up to the end of the program; None: it ended well."""

    @property
    @abstractmethod
    def _began(self) -> bool:
        """Whether the program has run: then it is too late to say that it could not be started."""

    def _live(self) -> Outcome:
        """How the task must end, whatever happens."""
        try:
            return self._steps() or COMPLETED
        except Ending as ending:
            return ending.outcome
        except MlcdError as error:
            return self._refused(error)
        except OSError as error:
            note_cause()
            return self._failed(error)
        except Exception as error:  # whatever it is, what runs must be ended and the cause told
            note_cause()
            return Outcome(EndCause.CRASHED, f"mlcd's own error: {error!r}; see {self._files.log}")

    def _refused(self, error: MlcdError) -> Outcome:
        return of_error(error, self.users_errors, self._began)

    def _failed(self, error: OSError) -> Outcome:
        if error.errno in FULL:
            return Outcome(EndCause.DISK_FULL, f"no space left on the disk that holds {self._folder.root}")
        if error.errno == errno.E2BIG:
            why = "the environment or the command is too long for this system"
            return Outcome(EndCause.CRASHED, why)
        return Outcome(EndCause.CRASHED, f"mlcd could not go on: {error}")

    def _make_folders(self) -> None:
        make_folders(self._folder, self._checkpoints)


def note_cause() -> None:
    """Leave the traceback in the runner's log; a full disk may refuse it, and that must not matter."""
    with suppress(OSError):
        traceback.print_exc()
