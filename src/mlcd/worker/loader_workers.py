"""Data loader workers that survive a SIGTERM to the whole process group.

A stop is sent to all processes of a node. If a data loader's worker dies of it, torch raises in the training at once,
before it could save. So in a program that ends by itself (it uses `steps` or `stopping`) its workers wait: for the second
SIGTERM, with which torch itself ends them, or until the grace is surely over. They also end when their parent does.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

_WAIT_SECONDS = 60.0


class SurviveSigterm:
    """A loader's worker_init_fn that also makes the worker survive a first SIGTERM; a class, so that it can be pickled."""

    def __init__(self, init: Callable[[int], Any] | None) -> None:
        self.init = init

    def __call__(self, worker_id: int) -> None:
        signal.signal(signal.SIGTERM, _wait)
        if self.init is not None:
            self.init(worker_id)


def survive_sigterm(loader: Any) -> None:
    """Make the workers of this loader survive a first SIGTERM; anything but a torch loader with workers is left alone."""
    init = getattr(loader, "worker_init_fn", None)
    if getattr(loader, "num_workers", 0) and hasattr(loader, "worker_init_fn") and not isinstance(init, SurviveSigterm):
        loader.worker_init_fn = SurviveSigterm(init)


def _wait(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    timer = threading.Timer(_WAIT_SECONDS, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
