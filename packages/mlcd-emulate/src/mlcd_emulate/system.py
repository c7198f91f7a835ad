"""The system's own tools, run for what they do or what they say."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping

from mlcd.errors import CloudError

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PATIENCE_S = 60.0


def run_tool(*command: str, lines: Iterable[str] = ()) -> str:
    """Run a tool to its end, with lines on its standard input; gives what it said."""
    done = _run(command, "\n".join(lines) + "\n")
    if done.returncode:
        raise CloudError(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.returncode}")
    return done.stdout


def try_tool(*command: str) -> bool:
    """Run a tool that may fail, because what it removes may be gone; gives whether it did not."""
    return _run(command, "").returncode == 0


def kill_quietly(pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to processes, some of which may have ended."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def tool_environment(**more: str) -> Mapping[str, str]:
    """An environment that depends on nobody's shell."""
    return {"PATH": SYSTEM_PATH, "LC_ALL": "C", **more}


def _run(command: tuple[str, ...], text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        env=tool_environment(),
        timeout=_PATIENCE_S,
        check=False,
    )
