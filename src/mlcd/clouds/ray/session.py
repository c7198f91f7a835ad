"""This process's connection to a Ray cluster."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mlcd.errors import CloudError, MissingExtraError

NAMESPACE = "mlcd"
KNOCK_SECONDS = 5.0


def connect(address: str) -> Any:
    """The ray package, connected; a second time is quiet."""
    ray = load_ray()
    if ray.is_initialized():
        return ray
    try:
        _knock(address)
        with own_signals():
            ray.init(
                address=address,
                namespace=NAMESPACE,
                log_to_driver=False,
                configure_logging=False,
                logging_level=logging.ERROR,
            )
    except (OSError, RuntimeError, ValueError) as error:
        raise CloudError(
            f"The Ray cluster at '{address}' does not answer: {(str(error) or repr(error)).splitlines()[0]}",
            "Set ray.address (MLCD_RAY_ADDRESS) to its address: 'auto' on a node of it, else 'ray://host:10001'.",
        ) from error
    return ray


@contextmanager
def own_signals() -> Iterator[None]:
    """Keep what this process does on SIGTERM: Ray puts a handler of its own there and never takes it back."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)


def _knock(address: str) -> None:
    """See whether someone listens there: Ray itself would try for minutes, and then end this process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_SECONDS).close()


def load_ray() -> Any:
    """Ray, which is an extra."""
    try:
        import ray
        import ray.util.placement_group
    except ImportError as error:
        raise MissingExtraError("Ray is not installed.", "pip install 'mlcd[ray]'") from error
    return ray
