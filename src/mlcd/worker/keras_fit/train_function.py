"""What `fit` calls for every step, or for every `steps_per_execution` of them, in the place of Keras's own function."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mlcd.worker.guard import guard
from mlcd.worker.keras_fit.counter import Counter, TrainStep
from mlcd.worker.keras_fit.noise import NoiseWatch
from mlcd.worker.keras_fit.totals import end, ends_by_itself, report, totals
from mlcd.worker.session import current

# Between two looks at the count: on a GPU each waits for the step that is under way.
_READ_SECONDS = 0.05
_READ_SECONDS_ON_GPU = 0.5
_REPORT_SECONDS = 0.5

Make = Callable[[Any, TrainStep], Callable[[Any], Any]]


class TrainFunction:
    """Trains as Keras's own function does, and looks now and then at what was done."""

    def __init__(self, model: Any, step: TrainStep, make: Make) -> None:
        self._model = model
        self._counter = Counter(model.distribute_strategy)
        counted = self._counter.counting(step)
        self._plain = make(model, counted)
        self._noise = NoiseWatch(model, counted, make) if current().env.noise else None
        self._read_seconds = _READ_SECONDS_ON_GPU if tf.config.list_logical_devices("GPU") else _READ_SECONDS
        self._read = (0, 0)
        self._next_read = self._next_report = 0.0
        totals.reads(self)

    def __call__(self, iterator: Any) -> Any:
        watch = self._noise
        measure = watch is not None and watch.due()
        logs = watch.measure(iterator, self._plain) if watch is not None and measure else self._plain(iterator)
        if watch is not None:
            watch.stepped(measure)
        self._after_step(logs)
        return logs

    @guard(None)
    def _after_step(self, logs: Any) -> None:
        session, now = current(), time.monotonic()
        if now < self._next_read:
            return
        self.read_count()
        self._next_read = time.monotonic() + self._read_seconds
        if now >= self._next_report:
            self._next_report = now + _REPORT_SECONDS
            report(session, logs)
        if ends_by_itself() and session.stop.due():
            end(self._model)

    def read_count(self) -> None:
        """Take in what was counted since the last time."""
        before, self._read = self._read, self._counter.read()
        every = getattr(self._model.optimizer, "gradient_accumulation_steps", None) or 1
        totals.add(self._model, self._read[0] // every - before[0] // every, self._read[1] - before[1])


def hook_trainer(module: Any) -> None:
    """Count the steps of TensorFlowTrainer of keras.src.backend.tensorflow.trainer."""
    make = module.TensorFlowTrainer._make_function

    @functools.wraps(make)
    def watched_make(self: Any, step: TrainStep) -> Any:
        return _watched(self, step, make) or make(self, step)

    module.TensorFlowTrainer._make_function = watched_make


@guard(None)
def _watched(model: Any, step: TrainStep, make: Make) -> TrainFunction | None:
    """The train function; None for the function of an evaluation."""
    return TrainFunction(model, step, make) if current().active and step == model.train_step else None
