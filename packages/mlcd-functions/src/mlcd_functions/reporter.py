"""Ships what a function has to say to the object store, from a thread of its own: also a sign of life."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlcd.core.progress import NodeUsage
from mlcd_functions.counted_objects import CountedObjects
from mlcd_functions.messages import Event, Report, report_key, to_bytes
from mlcd_functions.objects.errors import ObjectError, ObjectRefused

_MOST_BYTES = 1 << 20  # of a log in one report; the rest comes with the next


class Tail:
    """Reads a growing file, each time only what is new."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0

    def peek(self) -> str:
        """What is new, up to a limit; whole lines where there are any."""
        try:
            with self._file.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read(_MOST_BYTES)
        except OSError:
            return ""
        self._ahead = len(data)
        return data.decode(errors="replace")

    def move(self) -> None:
        """What was peeked at has been delivered."""
        self._offset += self._ahead

    def skip(self) -> None:
        """Leave out what has not been delivered."""
        with suppress(OSError):
            self._offset = self._file.stat().st_size

    _ahead = 0


class Reporter:
    """Numbers the reports of one invocation; what cannot be delivered goes with the next."""

    def __init__(
        self, objects: CountedObjects, event: Event, log: Path, progress: Path, usage: Callable[[], NodeUsage]
    ) -> None:
        self._objects = objects
        self._event = event
        self._log = Tail(log)
        self._progress = Tail(progress)
        self._usage = usage
        self._facts = Report(at=0.0, phase="fetching")
        self._number = 0
        self.refused = ""  # how the object store refused the last report
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def start(self) -> None:
        """Report now, and again at every tick; a store that we may not write to is an error at once."""
        self.deliver()
        if self.refused:
            raise ObjectRefused(self.refused)
        self._thread.start()

    def tell(self, **facts: Any) -> None:
        """Facts for this and all further reports."""
        with self._lock:
            self._facts = replace(self._facts, **facts)

    def deliver(self) -> bool:
        """Ship what is new; False: the object store does not take it now."""
        with self._lock:
            report = replace(
                self._facts,
                at=time.time(),
                log=self._log.peek(),
                progress=self._progress.peek(),
                reads=self._objects.reads,
                writes=self._objects.writes + 1,
            )
            try:
                self._objects.put(self._key(), to_bytes(report))
            except ObjectError as error:
                self.refused = error.message if isinstance(error, ObjectRefused) else ""
                return False
            self.refused = ""
            self._log.move()
            self._progress.move()
            self._number += 1
            return True

    def next_program(self, generation: int) -> None:
        """Ship the rest of a program that has ended; what is reported from now on is the next one's."""
        self.deliver()
        with self._lock:
            self._progress.skip()
            # In one step: how the last one ended, told of the new generation, would be a loss.
            self._facts = replace(
                self._facts, generation=generation, phase="fetching", exit_code=None, sync_error="", missing=""
            )

    def finish(self, patience_seconds: float, **facts: Any) -> bool:
        """The last report, tried again for a while; whether it has arrived."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        give_up_at = time.monotonic() + patience_seconds
        while self._log.peek() and time.monotonic() < give_up_at:
            if not self.deliver():
                time.sleep(0.2)
        self.tell(**facts)
        while not (arrived := self.deliver()) and not self.refused and time.monotonic() < give_up_at:
            time.sleep(0.2)
        return arrived

    def _key(self) -> str:
        return report_key(self._event.rank, self._event.invocation_id, self._number)

    def _run(self) -> None:
        while not self._ended.wait(self._event.tick_seconds):
            usage = self._usage()
            self.tell(memory_mb=usage.peak_memory_gib * 1024, cpu_share=usage.cpu_share)
            self.deliver()
