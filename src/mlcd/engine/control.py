"""Who drives a job: one controller at a time, found dead by its process or its silence."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from mlcd.core.records import Controller, JobRecord
from mlcd.engine.desk import job_folder
from mlcd.settings import Settings
from mlcd.store import LostControlError, Store

BEAT_SECONDS = 5.0
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
    if controller.host != socket.gethostname():
        return time.time() - controller.beat_at < SILENT_SECONDS
    try:
        process = psutil.Process(controller.pid)
        same = abs(process.create_time() - controller.born_at) < 1.0
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def start_controller(settings: Settings, record: JobRecord) -> None:
    """Start a process of its own that drives the job and outlives this one."""
    folder = job_folder(settings, record.id)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "controller.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "mlcd.engine.controller", record.id],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=folder,
            env={**os.environ, "MLCD_HOME": str(settings.home), "MLCD_STORE": settings.store_url},
        )


def _this_process() -> Controller:
    born_at = psutil.Process().create_time()
    return Controller(secrets.token_hex(8), socket.gethostname(), os.getpid(), born_at, time.time())


def _beat(store: Store, job_id: str, token: str, over: threading.Event) -> None:
    while not over.wait(BEAT_SECONDS):
        try:
            store.beat(job_id, token, time.time())
        except LostControlError:
            return  # the next guarded write tells the main thread
