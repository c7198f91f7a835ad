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
    from mlcd.clouds.local.supervisor import SIGNALS

    root, lock = Path(sys.argv[1]), int(sys.argv[2])
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if os.fork():
        os._exit(0)  # whoever launched us has no child to wait for
    os.set_inheritable(lock, False)
    _schedule(root)


def _schedule(root: Path) -> None:
    from dataclasses import replace

    from mlcd.clouds.functions.files import State, read_secrets, read_state, write_state
    from mlcd.clouds.functions.launching import read_task_settings
    from mlcd.clouds.functions.scheduling import Scheduling
    from mlcd.clouds.local.files import TaskFiles
    from mlcd.clouds.local.processes import birth
    from mlcd.core.task import TaskState

    files = TaskFiles(root)
    spec, settings = files.read_spec(), read_task_settings(files)
    if spec is None or settings is None:
        return
    fresh = State(os.getpid(), birth(os.getpid()))
    known = read_state(files)
    state = fresh if known is None else replace(known, pid=fresh.pid, birth=fresh.birth)
    if state.state.ended:
        return
    try:
        scheduling = Scheduling(files, spec, read_secrets(files), settings, state)
    except Exception as error:  # whoever asks for the status would start us again and again
        why = f"its scheduler cannot begin: {error}"
        write_state(files, replace(state, state=TaskState.FAILED, reason=why, ended_at=time.time()))
        raise
    scheduling.run()


if __name__ == "__main__":
    main()
