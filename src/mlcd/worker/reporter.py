"""Writes progress lines from a thread of its own, so that the training only counts."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mlcd.worker.counts import NOTHING, Count
from mlcd.worker.guard import guard

_TICK_SECONDS = 0.5
_LOCK_TIMEOUT_SECONDS = 1.0


class Reporter:
    """Appends what is new to the rank's file; what a full disk refuses is written later."""

    def __init__(
        self,
        file: Callable[[], Path | None],
        count: Callable[[], Count],
        tick: Callable[[], None],
        facts: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._file = file
        self._count = count
        self._tick = tick  # done by the thread on every round
        self._facts = facts  # that every line says beside the counts
        self._metrics: dict[str, float | str] = {}
        self._step: float | None = None
        self._saved: tuple[float, float] | None = None
        self._written = NOTHING
        self.batches = 0  # fetched from any data loader: a validation makes no step, and lives
        self._batches_written = 0
        self._torn = False
        self._process = f"{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.started = False
        self._began = time.monotonic()
        self._next = 0.0

    def start(self) -> None:
        """Start reporting; twice is harmless."""
        if not self.started:
            self.started = True
            self._thread = threading.Thread(target=self._run, name="mlcd", daemon=True)
            self._thread.start()

    def add_metrics(self, metrics: Mapping[str, float | str], step: float | None) -> None:
        """Values for the next line."""
        with self._lock:
            self._metrics.update(metrics)
            self._step = step if step is not None else self._step

    def add_save(self, changed_at: float, samples: float) -> None:
        """The program saved by itself when the job had done so many samples; written at once, because a kill may come next."""
        if self._lock.acquire(timeout=_LOCK_TIMEOUT_SECONDS):
            try:
                self._saved = (changed_at, samples)
                self._write()
            finally:
                self._lock.release()

    def end(self) -> None:
        """Write the last line. A file system that hangs delays the program by a second at most."""
        self._ended.set()
        if self._thread is not None and self._lock.acquire(timeout=_LOCK_TIMEOUT_SECONDS):
            try:
                self._write(end=True)
            finally:
                self._lock.release()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._round()
            self._ended.wait(_TICK_SECONDS)

    @guard(None)
    def _round(self) -> None:
        self._tick()
        if time.monotonic() >= self._next:
            with self._lock:
                self._write()
            self._next = time.monotonic() + self._pause() - _TICK_SECONDS / 2

    def _pause(self) -> float:
        """Seconds to the next line: longer in a long training, whose file is to stay small."""
        return min(5.0, max(_TICK_SECONDS, (time.monotonic() - self._began) / 1000))

    def _write(self, end: bool = False) -> None:
        count, file = self._count(), self._file()
        batches = self.batches
        same = count == self._written and batches == self._batches_written
        if file is None or (same and not (self._metrics or self._saved or end)):
            return
        if self._append(file, self._line(count, end)):
            self._batches_written = batches
            self._written, self._metrics, self._step, self._saved = count, {}, None, None

    def _line(self, count: Count, end: bool) -> str:
        t = count.t if count.steps > self._written.steps else time.time()
        line: dict[str, Any] = {"t": round(t, 4), "steps": count.steps, "samples": count.samples}
        if self._metrics:
            line["metrics"] = self._metrics
        if self._metrics and self._step is not None:
            line["step"] = self._step
        if self._saved is not None:
            line["saved"] = list(self._saved)
        line.update(self._facts())
        line["process"] = self._process
        if end:
            line["end"] = True
        return json.dumps(line)

    def _append(self, file: Path, line: str) -> bool:
        """Append in one write; after a torn one begin a new line first."""
        data = (("\n" if self._torn else "") + line + "\n").encode()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                written = os.write(handle, data)
            finally:
                os.close(handle)
        except OSError:
            return False
        self._torn = written < len(data)
        return not self._torn
