"""The process that looks after one task: `python -m mlcd.clouds.tasks.runner MODULE:CLASS FOLDER LOCK_FD`.

It comes with the task's lock already held (whoever started it took it and passed it on), reads the secrets from its
standard input, and leaves its parent at once. Killed before it has read them all, it has started nothing, and the lock
is free again. The class is a TaskLife: what the cloud does with the task from then on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from mlcd.clouds.tasks.signals import SIGNALS


def main() -> None:
    """Leave the parent, read the secrets, and look after the task to its end."""
    name, root, lock = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if os.fork():
        os._exit(0)  # whoever launched us has no child to wait for
    os.set_inheritable(lock, False)  # what we start must not hold it when we are gone
    secrets = _read_secrets()
    if secrets is not None:
        life = load(name)
        if life.guarded:
            _start_guard(root, lock, life.end_orphans)
        _look_after(life, root, secrets)


def load(name: str) -> Any:
    """What "module:name" names."""
    module, attribute = name.split(":")
    return getattr(import_module(module), attribute)


def _read_secrets() -> dict[str, str] | None:
    """The secrets, or None where the launching process died before it had passed them all."""
    text = sys.stdin.buffer.read()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if not text.endswith(b"\n"):
        return None
    return {str(name): str(value) for name, value in json.loads(text).items()}


def _start_guard(root: Path, lock: int, act: Callable[[Path], None]) -> None:
    """Fork a process that waits for our end, however it comes, and then ends what is left of the task."""
    ours, theirs = os.pipe()
    if os.fork():
        os.close(ours)  # `theirs` stays open, and unused, for as long as we live
        return
    os.setsid()
    os.close(theirs)
    os.close(lock)
    os.read(ours, 1)
    act(root)
    os._exit(0)


def _look_after(life: Any, root: Path, secrets: dict[str, str]) -> None:
    files = life.files_kind(root)
    spec = files.read_spec()
    if spec is None:
        return
    try:
        task = life(files, spec, secrets or files.read_secrets())
    except Exception as error:
        # Whatever it is: a runner that cannot begin must not be started again for ever.
        files.give_up(f"its task runner could not begin: {error}")
        raise
    task.run()


if __name__ == "__main__":
    main()
