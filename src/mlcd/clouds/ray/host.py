"""What runs in each bundle of a task's placement group: mlcd's hand on that node of the Ray cluster.

The class is sent to the cluster by value, which need not have mlcd: standard library only, and Ray itself where it runs.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

MARKER = (
    b"MLCD_LOCAL_TASK="  # in the environment of every process of a task: its folder (see mlcd.clouds.tasks.processes)
)
LOOK_SECONDS = 1.0


class Host:
    """Runs commands, keeps files, and gives everything back when its lease runs out."""

    def __init__(self, lease_seconds: float) -> None:
        ray: Any = import_module("ray")
        self._base = Path(tempfile.mkdtemp(prefix="mlcd-ray-"))
        self._since = time.time()
        self._lease_until = self._since + lease_seconds
        self._address = ray.util.get_node_ip_address()
        threading.Thread(target=self._watch_lease, daemon=True).start()

    def facts(self) -> dict[str, Any]:
        """Where this is, and since when."""
        return {
            "base": str(self._base),
            "address": self._address,
            "since": self._since,
            "python": sys.executable,
        }

    def run(self, command: str, stdin: bytes, seconds: float) -> tuple[int, bytes]:
        """A command for bash: its code and what it said."""
        try:
            done = subprocess.run(
                ["bash", "-c", command],
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_environment(),
                cwd=self._base,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, f"it took longer than {seconds:g} seconds".encode()
        return done.returncode, done.stdout

    def read(self, path: str, offset: int, most: int) -> bytes | None:
        """The content of a file from there on; None: no such file."""
        try:
            with Path(path).open("rb") as file:
                file.seek(offset)
                return file.read(most)
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        """A small file, whole or not at all."""
        draft = Path(f"{path}.part")
        draft.write_bytes(content)
        draft.replace(path)

    def append(self, path: str, content: bytes) -> None:
        """One more part of a large file."""
        with Path(path).open("ab") as file:
            file.write(content)

    def leave(self) -> None:
        """End what runs here and clear up; the agent ends when its folder is gone."""
        _end_marked(self._base)
        shutil.rmtree(self._base, ignore_errors=True)

    def _watch_lease(self) -> None:
        lease = self._base / "lease"
        while time.time() < self._lease_until:
            time.sleep(LOOK_SECONDS)
            with suppress(OSError, ValueError):  # not there yet
                self._lease_until = float(lease.read_text())
        self.leave()
        ray: Any = import_module("ray")
        ray.util.remove_placement_group(ray.util.get_current_placement_group())  # all its actors end with it
        os._exit(0)


def _environment() -> dict[str, str]:
    """That of the node, without what Ray told this very actor."""
    told = ("RAY_", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if not name.startswith(told)}


def _end_marked(base: Path, patience_seconds: float = 3.0) -> None:
    """Kill every process of a task that has its folder here."""
    deadline = time.monotonic() + patience_seconds
    while (pids := _marked(base)) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _marked(base: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and MARKER + os.fsencode(f"{base}/") in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found
