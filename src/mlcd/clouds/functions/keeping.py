"""What is known of a task: kept on disk before anything is done, and brought home from the object store."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from mlcd.clouds.checkpoints import newest_complete
from mlcd.clouds.functions.crew import Crew
from mlcd.clouds.functions.files import Spec, State, Stint, TaskFiles
from mlcd.clouds.functions.hearing import hear_answer, hear_report
from mlcd.clouds.functions.homecoming import Home, new_reports, newest_shipped
from mlcd.clouds.functions.workspace import ship_checkpoint
from mlcd.clouds.tasks.diagnosis import log_tail
from mlcd.sync import ObjectError, ObjectStore


class Keeper:
    """The one writer of a task's state while its scheduler lives."""

    def __init__(self, files: TaskFiles, spec: Spec, home: Home, objects: ObjectStore, state: State) -> None:
        self._files = files
        self._spec = spec
        self._home = home
        self._objects = objects
        self._away_since: float | None = None  # the object store
        self.replaced: dict[str, Stint] = {}  # invocations in whose place others act, which may still run
        self.state = state

    @property
    def away_seconds(self) -> float:
        """How long the object store has not answered; 0: it does."""
        return 0.0 if self._away_since is None else max(1e-9, time.monotonic() - self._away_since)

    @property
    def all_ended(self) -> bool:
        """Whether no function of the task runs any more."""
        return all(stint.ended for stint in self.state.stints)

    def tails(self) -> list[str]:
        """The end of each rank's log, once a program has ended badly."""
        if not any(stint.exit_code for stint in self.state.stints):
            return []
        return [log_tail(self._home.folder.log(stint.rank)) for stint in self.state.stints]

    def hear(self, crew: Crew) -> None:
        """Take in answers and reports; while the object store is away nobody is taken for lost."""
        for invocation, answer in crew.answers():
            self.state = hear_answer(self.state, invocation, answer, self.replaced)
        try:
            for stint in self.state.stints:
                for report in new_reports(self._objects, stint):
                    self.state = self._home.take(self.state, stint, report)
                    self.state = hear_report(self.state, stint.rank, report, self._spec)
                    if report.checkpoint and report.checkpoint != self.state.home_checkpoint:
                        self._bring(report.checkpoint)
            self._away_since = None
        except ObjectError:
            now = time.time()
            self._away_since = self._away_since or time.monotonic()
            fresh = tuple(replace(stint, heard_at=now) for stint in self.state.stints)
            self.state = replace(self.state, stints=fresh)

    def bring_checkpoint(self) -> str:
        """The newest that is in the object store in one piece, brought home."""
        with suppress(ObjectError):
            newest = newest_shipped(self._objects)
            if newest and self._bring(newest):
                return newest
        return self.state.home_checkpoint

    def _bring(self, name: str) -> bool:
        here = self._home.fetch(self._objects, name)
        if here:
            self.state = replace(self.state, home_checkpoint=name)
        return here

    def upload_checkpoint(self) -> None:
        """What earlier attempts have trained."""
        newest = newest_complete(self._home.checkpoints)
        if newest is not None:
            ship_checkpoint(self._objects, newest)
            self.change(home_checkpoint=newest.name)

    def note(self, message: str) -> None:
        """Leave a line in the first function's log."""
        with suppress(OSError), self._home.folder.log().open("a") as log:
            log.write(f"[mlcd] {message}\n")

    def change(self, **facts: object) -> None:
        """Write down what has changed."""
        self.state = replace(self.state, **facts)  # type: ignore[arg-type]  # the facts are the state's own
        self.save()

    def save(self) -> None:
        """Keep the state as it is."""
        self._files.write_state(self.state)
