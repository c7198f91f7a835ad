"""Finds the service of a home, or starts it: once, whoever asks and wherever they are killed."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from mlcd.clouds.tasks.files import write_atomically
from mlcd.clouds.tasks.processes import alive, birth
from mlcd.errors import CloudError

START_SECONDS = 30.0


@dataclass(frozen=True)
class ServiceSettings:
    """How the service behaves that would be started."""

    concurrency: int = 1000
    warm_seconds: float = 300.0
    cpu_scale: float = 1.0
    most_seconds: int = 900  # that an invocation may last
    most_memory_mb: int = 10240  # of one function; new accounts at AWS may have 3,008
    isolate: bool = True  # a network of its own for each function, where one may be made
    idle_seconds: float = 60.0  # the service ends by itself when there was no environment for so long


def running_url(root: Path) -> str | None:
    """Where the service answers, if it lives."""
    try:
        known = json.loads((root / "service.json").read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return str(known["url"]) if alive(known["pid"], known["birth"]) else None


def service_url(root: Path, settings: ServiceSettings) -> str:
    """Where the service answers; it is started where there is none."""
    root.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if url := running_url(root):
            return url
        lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if _locks(lock) and running_url(root) is None:
                _start(root, lock, settings)
        finally:
            os.close(lock)
        time.sleep(0.05)
    raise CloudError(
        f"The function service in {root} did not start.", f"The end of {root / 'service.log'} may say why."
    )


def announce(root: Path, url: str) -> None:
    """Say where this process serves."""
    known = {"url": url, "pid": os.getpid(), "birth": birth(os.getpid())}
    write_atomically(root / "service.json", json.dumps(known))


def withdraw(root: Path) -> None:
    """Whoever looks for a service from now on waits until this one has ended, and starts the next."""
    (root / "service.json").unlink(missing_ok=True)


def _start(root: Path, lock: int, settings: ServiceSettings) -> None:
    module = "mlcd_functions.service"
    with (root / "service.log").open("ab") as log:
        subprocess.run(
            [sys.executable, "-m", module, str(root), str(lock), json.dumps(asdict(settings))],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[lock],
            start_new_session=True,
            check=False,
        )


def _locks(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
