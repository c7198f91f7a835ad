"""SIGKILL at random moments for whoever looks after a job: its controller and its task runners."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

from mlcd.api import Client
from mlcd.core.run import JobState

OVER = (JobState.SUCCEEDED, JobState.PAUSED, JobState.STOPPED, JobState.FAILED)


def kill_at_random(client: Client, job_id: str, draw: random.Random, most: int) -> int:
    """SIGKILL for the controller, the runners, or both, while it searches and while it trains; gives how often."""
    kills = 0
    while kills < most and client.store.job(job_id).state not in OVER:
        client.start(job_id)  # whoever was killed last; where one is at work, nothing happens
        time.sleep(draw.uniform(0.2, 2.0))
        record = client.store.job(job_id)
        if kills == most // 2 and record.state is JobState.SEARCHING:
            continue  # the other half is for the training
        victims = ([record.controller.pid] if record.controller else []) * draw.choice((0, 1, 1))
        victims += runners(client.settings.home) * draw.choice((0, 1))
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        kills += bool(victims)
    client.start(job_id)
    return kills


def runners(home: Path) -> list[int]:
    """Those at work on this home's tasks."""
    lines = {process.pid: process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])}
    return [
        pid
        for pid, line in lines.items()
        if "mlcd.clouds.tasks.runner" in line and any(str(home) in part for part in line)
    ]
