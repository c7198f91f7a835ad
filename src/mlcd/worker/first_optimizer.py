"""Which of a program's optimizers, or of its models that are trained by Keras, marks its steps."""

from __future__ import annotations

import weakref
from typing import Any

_UNUSED_AFTER_STEPS = 200  # of other optimizers; then the first one counts as unused


class FirstOptimizer:
    """The first optimizer seen (a GAN has two), until it is gone or rests."""

    def __init__(self) -> None:
        self._id = 0  # compared at every step, which a weak reference would make dearer
        self._reference: weakref.ref[Any] | None = None
        self._others = 0

    @property
    def current(self) -> Any:
        """The optimizer; None: there is none."""
        return self._reference() if self._reference is not None else None

    def stepped(self, optimizer: Any) -> bool:
        """Whether this step of an optimizer is a step of the training."""
        if id(optimizer) == self._id:
            self._others = 0
            return True
        self._others += 1
        if self._id and self._others <= _UNUSED_AFTER_STEPS:
            return False
        self._reference = weakref.ref(optimizer, self._gone)
        self._id, self._others = id(optimizer), 0
        return True

    def _gone(self, reference: weakref.ref[Any]) -> None:
        if reference is self._reference:
            self._id = 0
