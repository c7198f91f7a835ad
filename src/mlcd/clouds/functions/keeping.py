"""What is known of a task: kept on disk before anything is done, and brought home from the object store."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from mlcd.clouds.checkpoints import newest_complete
from mlcd.clouds.functions.counting import CountedObjects
from mlcd.clouds.functions.crew import Crew
from mlcd.clouds.functions.files import Spec, State, Stint, TaskFiles
from mlcd.clouds.functions.hearing import hear_answer, hear_report
from mlcd.clouds.functions.homecoming import Home, new_reports, newest_shipped
from mlcd.clouds.functions.orders import WRITABLE
from mlcd.clouds.functions.workspace import ship_checkpoint
from mlcd.clouds.tasks.diagnosis import log_tail
from mlcd.sync import ObjectError


class Keeper:
    """The one writer of a task's state while its scheduler lives."""

    def __init__(
        self,
        files: TaskFiles,
        spec: Spec,
        home: Home,
        objects: CountedObjects,
        state: State,
        lost_seconds: float,
        read_seconds: float,
    ) -> None:
        self._files = files
        self._spec = spec
        self._home = home
        self._objects = objects
        self._lost_seconds = lost_seconds
        self._read_seconds = read_seconds  # between two looks for reports; 0: whenever asked
        self._read_at = float("-inf")
        self._counted = (0, 0)  # of our own requests: in the state
        self._away_since: float | None = None  # the object store
        self.away_why = ""
        self.replaced: dict[str, Stint] = {}  # invocations in whose place others act, which may still run
        self.state = state
        home.cut_back(
            state.sizes
        )  # before anything is saved: what a killed scheduler wrote last will come again

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
        answers = crew.answers()
        for invocation, answer in answers:
            self.state = hear_answer(self.state, invocation, answer, self.replaced)
        if answers or time.monotonic() - self._read_at >= self._read_seconds:
            self._read_at = time.monotonic()
            self._read_reports()

    def _read_reports(self) -> None:
        try:
            for stint in self.state.stints:
                for report in new_reports(self._objects, stint):
                    self.state = self._home.take(self.state, stint, report)
                    self.state = hear_report(self.state, stint.rank, report, self._spec)
                    if report.checkpoint and report.checkpoint != self.state.home_checkpoint:
                        self._bring(report.checkpoint)
            self._try_writing()
            self._away_since = None
        except ObjectError as error:
            now, self.away_why = time.time(), error.message
            self._away_since = self._away_since or time.monotonic()
            fresh = tuple(replace(stint, heard_at=now) for stint in self.state.stints)
            self.state = replace(self.state, stints=fresh)

    def _try_writing(self) -> None:
        """A store that can be read and not written to keeps every function silent: none of them is lost."""
        oldest = time.time() - self._lost_seconds
        silent = any(not stint.ended and stint.heard_at < oldest for stint in self.state.stints)
        if silent or self._away_since is not None:
            self._objects.put(WRITABLE, b"")

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
        """Keep the state as it is, with what was asked of the object store since the last time."""
        now, before = (self._objects.reads, self._objects.writes), self._counted
        self._counted = now
        self.state = replace(
            self.state,
            reads=self.state.reads + now[0] - before[0],
            writes=self.state.writes + now[1] - before[1],
            sizes=self._home.sizes(),
        )
        self._files.write_state(self.state)
