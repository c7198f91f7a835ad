"""The loaded models: few, each with one request at a time; the least recently used one makes room."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlcd.errors import TooManyRequestsError, UserError
from mlcd.serving.kinds import find_servable
from mlcd.serving.process import ModelProcess
from mlcd.settings import PredictSettings

DTYPES = ("float32", "float64", "int32", "int64", "bool")
_BUSY = "Too many predictions are requested at the moment."


class _Slot:
    """A place for one model."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: ModelProcess | None = None
        self.used_at = time.monotonic()

    def empty(self) -> None:
        """End what is in it."""
        if self.process is not None:
            self.process.end()
            self.process = None


class ModelPool:
    """Answers predictions from any thread; nothing of a model runs in this process."""

    def __init__(self, settings: PredictSettings) -> None:
        self._settings = settings
        self._slots: dict[str, _Slot] = {}
        self._lock = threading.Lock()
        # Further callers get TooManyRequestsError.
        self._callers = threading.BoundedSemaphore(2 * max(1, settings.processes))

    def predict(self, job_id: str, folder: Path, inputs: Any, dtype: str = "float32") -> Any:
        """The prediction of the job's model, which is in that folder."""
        if dtype not in DTYPES:
            raise UserError(f"Unknown dtype '{dtype[:40]}'.", f"Use one of: {', '.join(DTYPES)}.")
        with self._one_of_few(), self._slot(job_id) as slot:
            if slot.process is None or not slot.process.alive:
                slot.empty()
                slot.process = ModelProcess(find_servable(folder, job_id), self._settings, job_id)
            try:
                return slot.process.predict(inputs, dtype)
            finally:
                slot.used_at = time.monotonic()

    @property
    def loaded(self) -> list[str]:
        """The jobs whose models are loaded."""
        with self._lock:
            slots = list(self._slots.items())
        return [job_id for job_id, slot in slots if slot.process is not None and slot.process.alive]

    def close(self) -> None:
        """End them all."""
        with self._lock:
            slots, self._slots = list(self._slots.values()), {}
        for slot in slots:
            slot.empty()

    @contextmanager
    def _one_of_few(self) -> Iterator[None]:
        """A model that hangs must not hold up all threads of a server."""
        if not self._callers.acquire(blocking=False):
            raise TooManyRequestsError(_BUSY, "Try again in a few seconds.")
        try:
            yield
        finally:
            self._callers.release()

    @contextmanager
    def _slot(self, job_id: str) -> Iterator[_Slot]:
        with self._lock:
            slot = self._slots.get(job_id) or self._new_slot(job_id)
        if not slot.lock.acquire(timeout=self._settings.request_seconds):
            raise TooManyRequestsError(_BUSY, "Try again in a few seconds.")
        try:
            yield slot
        finally:
            slot.lock.release()

    def _new_slot(self, job_id: str) -> _Slot:
        """A slot of its own; if there are too many, in the place of the one not asked for longest."""
        if len(self._slots) >= max(1, self._settings.processes):
            idle = [(slot.used_at, name) for name, slot in self._slots.items() if not slot.lock.locked()]
            if not idle:
                raise TooManyRequestsError(_BUSY, "Try again in a few seconds.")
            self._slots.pop(min(idle)[1]).empty()
        slot = self._slots[job_id] = _Slot()
        return slot
