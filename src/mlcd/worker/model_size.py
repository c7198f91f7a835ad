"""How many parameters are trained: told once, and again when the program goes on with another model."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from mlcd.worker.optimizers import FirstOptimizer
from mlcd.worker.session import current

PARAMETERS = "mlcd/parameters"


class ModelSize:
    """The parameters of the optimizer that marks the steps."""

    def __init__(self) -> None:
        self._first = FirstOptimizer()
        self._counted: Callable[[], Any] | None = None
        self._groups = 0
        self._told = 0

    def stepped(self, optimizer: Any) -> None:
        """Count where it is another optimizer than before, or one with more to train: no step waits for this twice."""
        if not self._first.stepped(optimizer):
            return
        groups = len(optimizer.param_groups)
        if self._counted is not None and self._counted() is optimizer and groups == self._groups:
            return
        self._counted, self._groups = weakref.ref(optimizer), groups
        self._tell(sum(one.numel() for group in optimizer.param_groups for one in group["params"]))

    def _tell(self, parameters: int) -> None:
        session = current()
        if parameters != self._told and session.env.inside:
            self._told = parameters
            session.report(None, None, {PARAMETERS: float(parameters)})
