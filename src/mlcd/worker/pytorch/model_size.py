"""Reports the number of trained parameters, once and whenever it changes."""

from __future__ import annotations

from typing import Any

from mlcd.worker.guard import guard
from mlcd.worker.session import current

PARAMETERS = "mlcd/parameters"


class ModelSize:
    """The parameters of the optimizer that marks the steps, checked by the reporting thread."""

    def __init__(self) -> None:
        self._reported = 0

    @guard(None)
    def check(self, optimizer: Any) -> None:
        """Report the size if it has changed."""
        if optimizer is None:
            return
        parameters = sum(one.numel() for group in optimizer.param_groups for one in group["params"])
        if parameters != self._reported:
            self._reported = parameters
            current().report(None, None, {PARAMETERS: float(parameters)})
