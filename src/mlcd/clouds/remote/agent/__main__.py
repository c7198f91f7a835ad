"""`start FOLDER`, with the spec on standard input."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Start looking after the node whose folder is given."""
    start(Path(sys.argv[2]), json.load(sys.stdin))


def start(root: Path, spec: dict[str, Any]) -> None:
    """Leave the connection and look after the node; started twice, it runs once."""
    control = Path(spec["control"])
    lock = os.open(control / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    if (control / "state.json").exists():
        return
    # Before the fork: what cannot be imported is told at once.
    from mlcd.clouds.remote.agent.life import Agent

    if os.fork():
        return
    _leave(root)
    agent = Agent(root, spec)
    # Whoever ends all processes of a machine at once asks them first: what runs ends in order, and it is told why.
    signal.signal(signal.SIGTERM, lambda number, frame: agent.leave())
    agent.run()


def _leave(root: Path) -> None:
    """Become nobody's child, with nothing open that belongs to the connection."""
    os.setsid()
    log = os.open(root / "agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(old, new)
    if os.fork():
        os._exit(0)


if __name__ == "__main__":
    main()
