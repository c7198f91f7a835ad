"""What srun starts on each node of an allocation: `python3 host.py BASE LEASE_SECONDS`.

It runs commands that come as files and leaves their answers as files, and ends when the allocation is to end. It is copied to
the shared folder: standard library only, Python 3.9 or newer.

BASE/node-0/
    facts.json       where this is, since when
    in/ID.json       {"command": …, "stdin": in base64, "seconds": …}; removed as soon as it is read
    out/ID.json      {"code": …, "output": …}
    lease            until when the node lives, written by whoever looks after the task
    leaving          there when the allocation is about to be taken away: the agent ends its program (see agent/limits.py)
    tasks/TASK/      the agent's
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

LOOK_SECONDS = 0.1
GRACE_SECONDS = 60.0  # for agents to end their programs, once all is over
_PR_SET_CHILD_SUBREAPER = 36


class Host:
    """Runs commands on its node until the allocation ends."""

    def __init__(self, base: Path, lease_seconds: float) -> None:
        self._base = base
        self._since = time.time()
        self._lease_until = self._since + lease_seconds
        self._over_at = 0.0  # when it was told to go, or found its lease over
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)  # agents stay ours: Slurm counts and ends them
        signal.signal(signal.SIGTERM, self._leave)

    def run(self) -> None:
        """Answer until there is nobody to answer."""
        for name in ("in", "out"):
            (self._base / name).mkdir(parents=True, exist_ok=True)
        self._write("facts.json", self._facts())
        while not self._over():
            with suppress(OSError):  # the shared file system is away for a moment
                for question in sorted((self._base / "in").glob("*.json")):
                    self._take(question)
            time.sleep(LOOK_SECONDS)
        _kill_descendants(os.getpid())

    def _over(self) -> bool:
        """Whether the node can go: it must, and no agent has anything left to do."""
        if self._gone():
            return True
        with suppress(OSError, ValueError):  # not there yet
            self._lease_until = float((self._base / "lease").read_text())
        if not self._over_at and time.time() > self._lease_until:
            self._over_at = time.time()
        return bool(self._over_at) and (self._agents_ended() or time.time() - self._over_at > GRACE_SECONDS)

    def _gone(self) -> bool:
        """Whether the task's folder was removed; of a file system that does not answer nobody knows, and the lease decides."""
        try:
            return not self._base.is_dir()
        except OSError:
            return False

    def _agents_ended(self) -> bool:
        states = (_read(file) for file in self._base.glob("tasks/*/control/state.json"))
        return all(state is not None and state.get("phase") == "ended" for state in states)

    def _leave(self, number: int, frame: Any) -> None:
        """SIGTERM: the allocation was cancelled, preempted, or lost one of its nodes. What runs may end in order."""
        self._over_at = self._over_at or time.time()
        with suppress(OSError):
            (self._base / "leaving").touch()

    def _facts(self) -> dict[str, Any]:
        return {
            "address": _address(os.environ.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1")),
            "node": os.environ.get("SLURMD_NODENAME", socket.gethostname()),
            "job": int(os.environ.get("SLURM_JOB_ID", "0")),
            "since": self._since,
            "python": list(sys.version_info[:3]),
        }

    def _take(self, question: Path) -> None:
        """Run a command in a thread: some take long, and others must not wait for them."""
        asked = _read(question)
        with suppress(OSError):
            question.unlink()
        if asked is not None:
            threading.Thread(target=self._answer, args=(question.name, asked), daemon=True).start()

    def _answer(self, name: str, asked: dict[str, Any]) -> None:
        code, output = _run(asked["command"], base64.b64decode(asked["stdin"]), asked["seconds"], self._base)
        with suppress(OSError):  # the folder is gone: nobody asks any more
            self._write(f"out/{name}", {"code": code, "output": output.decode(errors="replace")})

    def _write(self, name: str, content: dict[str, Any]) -> None:
        draft = self._base / f"{name}.part"
        draft.write_text(json.dumps(content))
        draft.replace(self._base / name)


def _run(command: str, stdin: bytes, seconds: float, folder: Path) -> tuple[int, bytes]:
    try:
        done = subprocess.run(
            ["bash", "-c", command],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(),
            cwd=folder,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"it took longer than {seconds:g} seconds".encode()
    except OSError as error:
        return 126, str(error).encode()
    return done.returncode, done.stdout


def _environment() -> dict[str, str]:
    """That of the job, without what srun told this very process: a program that looks for a task of MPI must find none."""
    told = ("PMI_", "PMIX_", "SLURM_STEP", "SLURM_TASK", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS")
    return {name: value for name, value in os.environ.items() if not name.startswith(told)}


def _address(first: str) -> str:
    """This node's address in the network in which it reaches the first one."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((first, 9))
        return str(probe.getsockname()[0])
    return first


def _read(file: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(file.read_text()))
    except (OSError, ValueError):
        return None


def _kill_descendants(root: int) -> None:
    """End what is left, as often as it takes: what is started meanwhile as well."""
    for _ in range(50):
        left = _descendants(root)
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _descendants(root: int) -> list[int]:
    parents = dict(_parents())
    found, seen = [], {root}
    for pid in sorted(parents):
        chain, now = [], pid
        while now in parents and now not in seen:
            chain.append(now)
            now = parents[now]
        if now in seen:
            seen.update(chain)
            found += chain
    return found


def _parents() -> list[tuple[int, int]]:
    """Each process that is no zombie, with its parent."""
    rows = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                rows += [(int(entry.name), int(parent))] if state != "Z" else []
    return rows


if __name__ == "__main__":
    shared = Path(sys.argv[1]) / f"node-{os.environ.get('SLURM_NODEID', '0')}"
    Host(shared, float(sys.argv[2])).run()
