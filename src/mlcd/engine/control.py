"""Who drives a job: one controller at a time, found dead by its process or its silence."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from mlcd.clouds.tasks.processes import boot, started_seconds
from mlcd.core.records import Controller
from mlcd.engine.context import job_folder
from mlcd.settings import Settings
from mlcd.store import LostControlError, Store

BEAT_SECONDS = 5.0
LOCK_SECONDS = 0.01  # between two looks at a lock that is about to be free
# After which a process that still seems to live does: one that was killed shows it with a delay.
SURE_SECONDS = 0.2
DEATH_SECONDS = 60.0  # the longest that a killed process is waited for
# The search's matrices are small: more threads only take cores from a training on this computer. Programs get their own number.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
SILENT_SECONDS = 30.0  # on another host only its beat tells that a controller lives


@contextmanager
def controlling(store: Store, job_id: str) -> Iterator[str | None]:
    """Be the job's controller; gives its token, or None if another one is at work."""
    me = _this_process()
    if store.take_control(job_id, me, may_replace=lambda old: not alive(old)) is None:
        yield None
        return
    over = threading.Event()
    beating = threading.Thread(target=_beat, args=(store, job_id, me.token, over), daemon=True)
    beating.start()
    try:
        yield me.token
    finally:
        over.set()
        beating.join()
        store.release(job_id, me.token)


def alive(controller: Controller | None) -> bool:
    """Whether that controller is still at work."""
    if controller is None:
        return False
    if controller.host != _this_host():
        return time.time() - controller.beat_at < SILENT_SECONDS
    return started_seconds(controller.pid) == controller.born_at


def surely_alive(controller: Controller | None) -> bool:
    """The same for one that may have been killed this very moment."""
    if not alive(controller):
        return False
    time.sleep(SURE_SECONDS)
    return alive(controller)


def start_controller(settings: Settings, store: Store, job_id: str) -> None:
    """Start a process of its own that drives the job and outlives this one, unless one is at work or starting already.

    On a busy computer that takes a while, and everyone who looks at the job meanwhile sees no controller. The new
    process holds a lock until it has control and then reads the job, so one that is starting sees all that was asked
    before, and whoever gets the lock after it sees the new controller.
    """
    folder = job_folder(settings, job_id)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "controller.log").open("ab") as log, (folder / "starting.lock").open("a+b") as lock:
        if not _locked(lock) or surely_alive(store.job(job_id).controller):
            return
        lock.truncate(0)  # whoever looks now waits for nobody who is gone
        process = subprocess.Popen(
            [sys.executable, "-m", "mlcd.engine.controller", job_id, str(lock.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[lock.fileno()],
            cwd=folder,
            env={
                **ONE_THREAD,
                **os.environ,
                "MLCD_HOME": str(settings.home),
                "MLCD_STORE": settings.store_url,
            },
        )
        lock.write(str(process.pid).encode())


def _locked(lock: BinaryIO) -> bool:
    """Take the lock; False: its holder, who has written its process down, is starting a controller.

    One that was just killed holds it until the kernel has taken its memory back: that is waited for. Between the kill
    and its end such a process can look alive for a moment, so one that was seen dying once is not taken for alive.
    """
    began, dying = time.monotonic(), False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            dying = dying or _holder_is_dying(lock)
            if time.monotonic() - began > (DEATH_SECONDS if dying else SURE_SECONDS):
                return False
            time.sleep(LOCK_SECONDS)
        else:
            return True


def _holder_is_dying(lock: BinaryIO) -> bool:
    lock.seek(0)
    holder = int(lock.read() or 0)
    return holder != 0 and started_seconds(holder) is None


def _this_process() -> Controller:
    born_at = started_seconds(os.getpid()) or 0.0
    return Controller(secrets.token_hex(8), _this_host(), os.getpid(), born_at, time.time())


def _this_host() -> str:
    """This computer since its last boot: a process of an earlier boot is not one of ours."""
    return f"{socket.gethostname()}/{boot()}"


def _beat(store: Store, job_id: str, token: str, over: threading.Event) -> None:
    while not over.wait(BEAT_SECONDS):
        try:
            store.beat(job_id, token, time.time())
        except LostControlError:
            return  # the next guarded write tells the main thread
