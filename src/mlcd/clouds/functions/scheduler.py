"""The process that looks after one task: `python -m mlcd.clouds.functions.scheduler FOLDER LOCK_FD`.

It comes with the task's lock in its hand and leaves its parent at once. Should it be killed, the functions go on, and the
next look at the task starts another, which takes over.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    """Leave the parent, and look after the task to its end."""
    from mlcd.clouds.tasks.signals import SIGNALS

    root, lock = Path(sys.argv[1]), int(sys.argv[2])
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if os.fork():
        os._exit(0)  # whoever launched us has no child to wait for
    os.set_inheritable(lock, False)
    _schedule(root)


def _schedule(root: Path) -> None:
    from dataclasses import replace

    from mlcd.clouds.functions.files import State, TaskFiles
    from mlcd.clouds.functions.scheduling import Scheduling
    from mlcd.clouds.tasks.processes import birth
    from mlcd.core.task import TaskState

    files = TaskFiles(root)
    spec, settings = files.read_spec(), files.read_settings()
    if spec is None or settings is None:
        return
    fresh = State(os.getpid(), birth(os.getpid()))
    known = files.read_state()
    state = fresh if known is None else replace(known, pid=fresh.pid, birth=fresh.birth)
    if state.state.ended:
        return
    try:
        scheduling = Scheduling(files, spec, files.read_secrets(), settings, state)
    except Exception as error:  # whoever asks for the status would start us again and again
        why = f"its scheduler cannot begin: {error}"
        files.write_state(replace(state, state=TaskState.FAILED, reason=why, ended_at=time.time()))
        raise
    scheduling.run()


if __name__ == "__main__":
    main()
