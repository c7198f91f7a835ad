"""What is known of a task: kept on disk before anything is done, and downloaded from the object store."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mlcd.clouds.checkpoints import newest_complete
from mlcd.clouds.tasks.recorder import Recorder
from mlcd_functions.collect import Collector, new_reports, newest_shipped
from mlcd_functions.counted_objects import CountedObjects
from mlcd_functions.files import Invocation, State, TaskFiles
from mlcd_functions.invoker import Invoker
from mlcd_functions.messages import WRITABLE
from mlcd_functions.objects.errors import ObjectError
from mlcd_functions.reports import with_answer, with_report
from mlcd_functions.workspace import ship_checkpoint


class Record(Recorder[State]):
    """The state of a task on disk, with what its functions report."""

    def __init__(
        self,
        files: TaskFiles,
        collector: Collector,
        objects: CountedObjects,
        state: State,
        lost_seconds: float,
        read_seconds: float,
    ) -> None:
        super().__init__(files, state)
        self._collector = collector
        self._objects = objects
        self._lost_seconds = lost_seconds
        self._read_seconds = read_seconds  # between two looks for reports; 0: whenever asked
        self._read_at = float("-inf")
        self.looked_at = 0.0  # for reports; whoever had given a sign of life by then is not lost
        self._counted = (0, 0)  # of our own requests: in the state
        self._away_since: float | None = None  # the object store
        self.away_why = ""
        self.replaced: dict[str, Invocation] = {}  # invocations in whose place others act, which may still run
        collector.cut_back(state.sizes)  # before anything is saved: what a killed runner wrote last comes again

    @property
    def away_seconds(self) -> float:
        """How long the object store has not answered; 0: it does."""
        return 0.0 if self._away_since is None else max(1e-9, time.monotonic() - self._away_since)

    @property
    def all_ended(self) -> bool:
        """Whether no function of the task runs any more."""
        return all(invocation.ended for invocation in self.state.latest)

    def receive(self, invoker: Invoker) -> None:
        """Take in answers and reports; while the object store is away nobody is taken for lost."""
        answers = invoker.answers()
        for invocation_id, answer in answers:
            self.state = with_answer(self.state, invocation_id, answer, self.replaced)
        if answers or time.monotonic() - self._read_at >= self._read_seconds:
            self._read_at, self.looked_at = time.monotonic(), time.time()
            self._read_reports()

    def receive_rest(self) -> None:
        """Take in every report that there is, and keep what is known now: after it they may be deleted."""
        while self._take_reports():
            pass
        self.change()

    def _read_reports(self) -> None:
        try:
            self._take_reports()
            self._try_writing()
            self._away_since = None
        except ObjectError as error:
            now, self.away_why = time.time(), error.message
            self._away_since = self._away_since or time.monotonic()
            fresh = tuple(replace(invocation, reported_at=now) for invocation in self.state.latest)
            self.state = replace(self.state, latest=fresh)

    def _take_reports(self) -> int:
        """Those that are new, up to a limit; how many there were."""
        taken = 0
        for invocation in self.state.latest:
            for report in new_reports(self._objects, invocation):
                self.state = self._collector.take(self.state, invocation, report)
                self.state = with_report(self.state, invocation.rank, report)
                if report.checkpoint and report.checkpoint != self.state.home_checkpoint:
                    self._bring(report.checkpoint)
                taken += 1
        return taken

    def _try_writing(self) -> None:
        """A store that can be read and not written to keeps every function silent: none of them is lost."""
        oldest = self.looked_at - self._lost_seconds
        silent = any(not invocation.ended and invocation.reported_at < oldest for invocation in self.state.latest)
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
        here = self._collector.fetch(self._objects, name)
        if here:
            self.state = replace(self.state, home_checkpoint=name)
        return here

    def upload_checkpoint(self) -> None:
        """What earlier attempts have trained."""
        newest = newest_complete(self._collector.checkpoints)
        if newest is not None:
            ship_checkpoint(self._objects, newest)
            self.change(home_checkpoint=newest.name)

    def note(self, message: str) -> None:
        """Leave a line in the first function's log."""
        with suppress(OSError), self._collector.folder.log().open("a") as log:
            log.write(f"[mlcd] {message}\n")

    def change(self, **facts: Any) -> None:
        """Write down what has changed, with what was asked of the object store since the last time."""
        now, before = (self._objects.reads, self._objects.writes), self._counted
        self._counted = now
        super().change(
            **facts,
            reads=self.state.reads + now[0] - before[0],
            writes=self.state.writes + now[1] - before[1],
            sizes=self._collector.sizes(),
        )
