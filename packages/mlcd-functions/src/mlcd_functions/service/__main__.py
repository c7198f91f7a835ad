"""The service's process: `python -m mlcd_functions.service ROOT LOCK_FD SETTINGS`.

It comes with the service's lock in its hand, leaves its parent, and ends by itself once nobody has needed it for a
while. A guard, forked from it, ends its environments however it ends; it holds the lock too, so that the next service
begins when that is done.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

IDLE_LOOK_SECONDS = 0.2
LAST_CALLS_SECONDS = 0.5  # for those who have found the service and not called it yet


def main() -> None:
    """Serve until nobody needs it, or a signal comes."""
    root, lock, asked = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    signal.pthread_sigmask(signal.SIG_SETMASK, set())  # whoever started us may have blocked some
    if os.fork():
        os._exit(0)  # whoever started us has no child to wait for
    os.set_inheritable(lock, False)
    mark = f"mlcd-functions-{os.getpid()}"
    _start_guard(root, mark)
    _serve(root, mark, asked)


def _start_guard(root: Path, mark: str) -> None:
    """Fork a process that waits for our end, however it comes, and then clears up after us, before the next one starts."""
    ours, theirs = os.pipe()
    if os.fork():
        os.close(ours)  # `theirs` stays open, and unused, for as long as we live
        return
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.close(theirs)
    os.read(ours, 1)
    _clear_up(root, mark)
    os._exit(0)


def _clear_up(root: Path, mark: str) -> None:
    import shutil

    from mlcd.clouds.tasks.processes import end_marked, marked_tasks
    from mlcd_functions.service.limits import remove_groups

    for folder in marked_tasks(root / "environments"):
        end_marked(folder, patience_seconds=30.0)
    remove_groups(mark)
    shutil.rmtree(root / "environments", ignore_errors=True)


def _serve(root: Path, mark: str, asked: dict[str, float]) -> None:
    from mlcd_functions.service import isolation
    from mlcd_functions.service.front import Front, serve
    from mlcd_functions.service.functions import Functions
    from mlcd_functions.service.pool import Pool, PoolSettings
    from mlcd_functions.service.starting import announce, withdraw

    _clear_up(root, mark)  # what is left where the last one and its guard were both killed
    isolated = bool(asked["isolate"]) and not isolation.why_not()
    account = PoolSettings(int(asked["concurrency"]), asked["warm_seconds"], asked["cpu_scale"], isolated)
    pool = Pool(root, account, mark)
    functions = Functions(root / "code", int(asked["most_seconds"]), int(asked["most_memory_mb"]))
    server = serve(Front(functions, pool))
    url = f"http://127.0.0.1:{server.server_address[1]}"
    announce(root, url)
    ending: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signum, frame: ending.append(signum))

    def idle() -> bool:
        return min(pool.quiet_seconds, functions.quiet_seconds) >= asked["idle_seconds"]

    while not ending:
        time.sleep(IDLE_LOOK_SECONDS)
        if idle():
            withdraw(root)
            time.sleep(LAST_CALLS_SECONDS)
            if idle():
                break
            announce(root, url)
    withdraw(root)
    server.shutdown()
    pool.close()


if __name__ == "__main__":
    main()
