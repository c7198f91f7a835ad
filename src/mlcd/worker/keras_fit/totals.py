"""What was counted over all models, and what Keras says of it; nothing here imports TensorFlow."""

from __future__ import annotations

import sys
from typing import Any

from mlcd.worker.first_optimizer import FirstOptimizer
from mlcd.worker.guard import guard
from mlcd.worker.session import Session, current


class Totals:
    """Steps and samples over all models, of which the first one marks the steps (a GAN may have two)."""

    def __init__(self) -> None:
        self.first = FirstOptimizer()
        self.cut = False  # mlcd has ended `fit` before its time
        self._steps = self._samples = 0

    def begin(self) -> None:
        """`fit` begins: its model marks the steps from now on."""
        self.first = FirstOptimizer()
        self.cut = False

    def add(self, model: Any, steps: int, samples: int) -> None:
        """A model has done that much more."""
        if steps == 0 or not self.first.stepped(model):
            return
        self._steps, self._samples = self._steps + steps, self._samples + samples
        accumulated = getattr(model.optimizer, "gradient_accumulation_steps", None) or 1
        current().counts.set_hooked(self._steps // accumulated, float(self._samples))


totals = Totals()


@guard(None)
def read_count(model: Any) -> None:
    """Take in what was counted since the last time."""
    read = getattr(getattr(model, "train_function", None), "read_count", None)
    if read is not None:
        read()


def report(session: Session, logs: Any) -> None:
    """Report the metrics that Keras shows."""
    session.report(None, None, {name: value for name, value in dict(logs or {}).items() if isinstance(name, str)})


def end(model: Any) -> None:
    """Have `fit` end after this step."""
    totals.cut = True
    model.stop_training = True


def ends_by_itself() -> bool:
    """Whether this rank may end when it likes: ranks that exchange by mlcd.sync end after the same step (see mlcd.sync.keras)."""
    return not getattr(sys.modules.get("mlcd.sync.group"), "joined", 0)
