"""Errors between workers and their stores (the tree is drawn in mlcd.sync)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mlcd.errors import MlcdError

SIGN = "MLCD_SYNC_SIGN"  # names the file that tells whoever runs the program why it could not go on


class SyncError(MlcdError):
    """Workers could not synchronise."""


class SignedError(SyncError):
    """Not the program's fault, or not only: it is written to the file that MLCD_SYNC_SIGN names, where there is one."""

    ranks: tuple[int, ...] = ()  # who is missing

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        file = os.environ.get(SIGN)
        if file:
            with suppress(OSError):
                Path(file).write_text(json.dumps({"error": type(self).__name__, "ranks": self.ranks}))


class SyncTimeout(SignedError):
    """Some workers did not come in time; `ranks` are the missing ones."""

    def __init__(self, ranks: Iterable[int], waited_s: float) -> None:
        self.ranks = tuple(sorted(ranks))
        names = ", ".join(str(rank) for rank in self.ranks)
        super().__init__(
            f"Nothing was heard of rank {names} for {waited_s:g} s.",
            "Restart the missing workers and let all workers join the next generation.",
        )


class StaleWorker(SyncError):
    """A newer generation has begun without this process."""


class StoreLost(SignedError):
    """The parameter store cannot be reached any more."""


class StoreFull(SignedError):
    """The parameter store is out of memory."""
