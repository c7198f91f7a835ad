"""Runs training programs as a cloud would: in processes of their own, with the bundle beside them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from mlcd.worker import write_bundle

PATIENCE_S = 500.0  # on a busy computer a training gets a small part of a core; a test as a whole has 600 s


def start(program: str, folder: Path, python: str = sys.executable, **variables: object) -> subprocess.Popen[str]:
    """Start a program inside mlcd; its progress and checkpoints go to sub-folders of the folder."""
    bundle, file = _bundle(folder / "bundle"), folder / "program.py"
    if not file.exists() or file.read_text() != textwrap.dedent(program):
        file.write_text(textwrap.dedent(program))
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("MLCD_", "PYTHONPATH"))},
        **bundle,
        "OMP_NUM_THREADS": "1",
        "MLCD_TASK_ID": "task-1",
        "MLCD_PROGRESS_DIR": str(folder / "progress"),
        "MLCD_CHECKPOINT_DIR": str(folder / "checkpoints"),
        **{name: str(value) for name, value in variables.items()},
    }
    return subprocess.Popen(
        [python, str(file)],
        env=env,
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _bundle(folder: Path) -> dict[str, str]:
    """Its environment. It is written once: another rank may be reading it."""
    return {"PYTHONPATH": str(folder)} if (folder / "sitecustomize.py").exists() else write_bundle(folder)


def finish(process: subprocess.Popen[str], seconds: float = PATIENCE_S) -> str:
    """What the program printed; it must end by itself and well."""
    try:
        output, _ = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert process.returncode == 0, output
    return output


def wait_for(what: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Return once it is so."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come to it in time"
        time.sleep(0.05)


def free_port() -> int:
    """A port that no one uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
