"""How many parameters are trained: told once, and again when the program goes on with another model."""

from __future__ import annotations

from typing import Any

from mlcd.worker.guard import guard
from mlcd.worker.session import current

PARAMETERS = "mlcd/parameters"


class ModelSize:
    """The parameters of the optimizer that marks the steps, looked at by the reporting thread now and then."""

    def __init__(self) -> None:
        self._told = 0

    @guard(None)
    def look(self, optimizer: Any) -> None:
        """Tell it where it is another size than before."""
        if optimizer is None:
            return
        parameters = sum(one.numel() for group in optimizer.param_groups for one in group["params"])
        if parameters != self._told:
            self._told = parameters
            current().report(None, None, {PARAMETERS: float(parameters)})
