"""What was counted over all models, and what Keras says of it; nothing here imports TensorFlow."""

from __future__ import annotations

import sys
import weakref
from typing import Any, Protocol

from mlcd.worker.first_optimizer import FirstOptimizer
from mlcd.worker.guard import guard
from mlcd.worker.session import Session, current


class Reads(Protocol):
    """A train function."""

    def read_count(self) -> None:
        """Take in what was counted since the last time."""
        ...


class Totals:
    """Steps and samples over all models, of which the first one marks the steps (a GAN may have two)."""

    def __init__(self) -> None:
        self.first = FirstOptimizer()
        self.cut = False  # mlcd has ended `fit` before its time
        self._steps = self._samples = 0
        self._functions: weakref.WeakSet[Reads] = weakref.WeakSet()

    def begin(self) -> None:
        """`fit` begins: its model marks the steps from now on."""
        self.first = FirstOptimizer()
        self.cut = False

    def reads(self, function: Reads) -> None:
        """Look at this train function once more when the program ends."""
        self._functions.add(function)
        before_end = current().before_end
        if self.read_rest not in before_end:
            before_end.append(self.read_rest)

    @guard(None)
    def read_rest(self) -> None:
        """Take in what was done since the last look: a loop over `train_on_batch` ends without a word."""
        for function in list(self._functions):
            function.read_count()

    def add(self, model: Any, steps: int, samples: int) -> None:
        """A model has done that much more."""
        if not (steps or samples) or not self.first.stepped(model):
            return
        self._steps, self._samples = self._steps + steps, self._samples + samples
        current().counts.set_hooked(self._steps, float(self._samples))


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
