"""The process that looks after one task from home: `python -m mlcd.clouds.remote.courier FOLDER LOCK_FD`.

It comes with the task's lock already held (whoever started it took it and passed it on) and leaves its parent at once.
Killed at any line it is started again by the next `status` or `launch`, and goes on where it was.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Leave the parent and look after the task to its end."""
    root, lock = Path(sys.argv[1]), int(sys.argv[2])
    if os.fork():
        os._exit(0)  # whoever started us has no child to wait for
    os.set_inheritable(lock, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _look_after(root)


def _look_after(root: Path) -> None:
    from mlcd.clouds.remote.errand import Errand
    from mlcd.clouds.remote.files import TaskFiles

    files = TaskFiles(root)
    spec = files.read_spec()
    if spec is None:
        return
    try:
        errand = Errand(files, spec)
    except (
        Exception
    ) as error:  # whatever it is: a courier that cannot begin must not be started again for ever
        files.give_up(f"its courier could not begin: {error}")
        raise
    errand.run()


if __name__ == "__main__":
    main()
