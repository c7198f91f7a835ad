"""The process that looks after one task: `python -m mlcd.clouds.local.supervisor FOLDER LOCK_FD`.

It comes with the task's lock already held (the launching process took it and passed it on), reads the secrets from
its standard input, and leaves its parent at once. Killed before it has read them all, it has started nothing, and
the lock is free again. A guard, forked from it, ends the task's processes should the supervisor die of SIGKILL.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from mlcd.clouds.tasks.signals import SIGNALS


def main() -> None:
    """Leave the parent, read the secrets, and look after the task to its end."""
    root, lock = Path(sys.argv[1]), int(sys.argv[2])
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if os.fork():
        os._exit(0)  # whoever launched us has no child to wait for
    os.set_inheritable(lock, False)  # the nodes must not hold it when we are gone
    secrets = _read_secrets()
    if secrets is None:
        return
    _start_guard(root, lock)
    _supervise(root, secrets)


def _read_secrets() -> dict[str, str] | None:
    """The secrets, or None where the launching process died before it had passed them all."""
    text = sys.stdin.buffer.read()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if not text.endswith(b"\n"):
        return None
    return {str(name): str(value) for name, value in json.loads(text).items()}


def _start_guard(root: Path, lock: int) -> None:
    """Fork a process that waits for our end, however it comes, and then ends what is left of the task."""
    ours, theirs = os.pipe()
    if os.fork():
        os.close(ours)  # `theirs` stays open, and unused, for as long as we live
        return
    os.setsid()
    os.close(theirs)
    os.close(lock)
    os.read(ours, 1)
    _end_all(root)
    os._exit(0)


def _end_all(root: Path) -> None:
    from mlcd.clouds.local.exchange import forget_exchange
    from mlcd.clouds.tasks.processes import end_marked

    end_marked(root, patience_seconds=30.0)
    forget_exchange(root)


def _supervise(root: Path, secrets: dict[str, str]) -> None:
    from mlcd.clouds.local.files import TaskFiles
    from mlcd.clouds.local.supervision import Supervision

    files = TaskFiles(root)
    spec = files.read_spec()
    if spec is not None:
        Supervision(files, spec, secrets).run()


if __name__ == "__main__":
    main()
