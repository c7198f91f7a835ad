"""What runs on a rented machine: Valkey, until nobody has used it for a while."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from function_service import wait_until
from mlcd.sync.valkey.connection import Connection
from mlcd.worker.bundle import write_bundle
from mlcd_functions.rented.plan import program_folder

pytestmark = pytest.mark.slow
PASSWORD = "tell-nobody"


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Any]:
    """Starts it as the agent on a machine does; gives the process and the server's URL."""
    started: list[subprocess.Popen[bytes]] = []

    def start(idle_seconds: float) -> tuple[subprocess.Popen[bytes], str]:
        folder = tmp_path / "copy"
        shutil.copytree(program_folder(tmp_path), folder)
        (tmp_path / "progress").mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        told = {
            **write_bundle(tmp_path / "bundle"),
            "VALKEY_PORT": str(port),
            "VALKEY_MEMORY_MB": "16",
            "VALKEY_IDLE_SECONDS": str(idle_seconds),
            "VALKEY_PASSWORD": PASSWORD,
            "MLCD_TASK_ID": "t",
            "MLCD_PROGRESS_DIR": str(tmp_path / "progress"),
            "RANK": "0",
        }
        process = subprocess.Popen([sys.executable, "serve.py"], cwd=folder, env={**os.environ, **told})
        started.append(process)
        wait_until(lambda: '"steps": 1' in progress(tmp_path) or process.poll() is not None)
        return process, f"redis://:{PASSWORD}@127.0.0.1:{port}"

    yield start
    for process in started:
        process.kill()
        process.wait()


def progress(folder: Path) -> str:
    return "".join(file.read_text() for file in (folder / "progress").glob("rank-0.jsonl"))


def test_it_reports_a_step_once_it_answers_and_stays_for_as_long_as_somebody_is_connected(serving: Any) -> None:
    process, url = serving(idle_seconds=1.0)
    user = Connection(url)
    assert user.ask("SET", "key", "value") == b"OK"
    time.sleep(6.0)
    assert process.poll() is None
    assert user.ask("GET", "key") == b"value"
    user.close()
    assert process.wait(timeout=60.0) == 0


def test_it_ends_with_its_server(serving: Any) -> None:
    process, _ = serving(idle_seconds=600.0)
    (server,) = psutil.Process(process.pid).children()
    assert PASSWORD not in " ".join(server.cmdline())
    assert PASSWORD not in str(server.environ())
    os.kill(server.pid, signal.SIGKILL)
    assert process.wait(timeout=60.0) == 1
