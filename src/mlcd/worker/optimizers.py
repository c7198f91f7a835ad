"""Which of a program's optimizers marks its steps."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

_PATIENCE_STEPS = 200  # of other optimizers, before the first is taken to be out of use


class FirstOptimizer:
    """The first optimizer seen (a GAN has two), until it is gone or rests."""

    def __init__(self) -> None:
        self._first: Callable[[], Any] | None = None
        self._others = 0

    def stepped(self, optimizer: Any) -> bool:
        """Whether this step of an optimizer is a step of the training."""
        first = self._first() if self._first is not None else None
        if first is None or self._others >= _PATIENCE_STEPS:
            self._first = weakref.ref(optimizer)
            first = optimizer
        self._others = 0 if first is optimizer else self._others + 1
        return first is optimizer
