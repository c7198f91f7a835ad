"""Nouns to store, and programs that store them in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from mlcd.core.job import Job
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.records import Controller, JobRecord, TaskRecord
from mlcd.core.run import JobState
from mlcd.core.task import Charge, TaskKind
from mlcd.core.trial import Failure, FailureKind, Measurement, Trial

OFFER = Offer("local", InstanceType("local-2c", vcpus=2), usd_per_hour=0.1, max_nodes=4)
DEPLOYMENT = Deployment(OFFER, nodes=2, batch_size=64)
CHARGES = (Charge("2 × local-2c", 60.0, 0.1), Charge("disk", 60.0, 0.2))


def job(id_: str = "digits-1a2b", name: str = "digits", **facts: object) -> JobRecord:
    """A job that searches."""
    record = JobRecord(id_, Job(name, "python train.py"), JobState.SEARCHING, submitted_at=100.0, cloud="local")
    return replace(record, **facts)  # type: ignore[arg-type]


def task(number: int = 1, job_id: str = "digits-1a2b", kind: TaskKind = TaskKind.PROBE) -> TaskRecord:
    """A task that was intended."""
    at = 100.0 * number
    return TaskRecord(f"{job_id}-{kind.value[0]}{number}", job_id, kind, number, DEPLOYMENT, "local", at)


def trial(number: int = 1, job_id: str = "digits-1a2b") -> Trial:
    """What became of the probe with that number."""
    task_id = task(number, job_id).id
    if number % 3 == 0:
        return Trial(DEPLOYMENT, Failure(FailureKind.HUNG, log_tail="…\0"), 60.0, 0.3, task_id=task_id)
    return Trial(DEPLOYMENT, Measurement(100.0 * number, 95.0, float("inf")), 60.0, 0.3, task_id=task_id)


def controller(token: str = "mine", beat_at: float = 100.0) -> Controller:
    """A process that drives a job."""
    return Controller(token, "host", 4242, born_at=50.0, beat_at=beat_at)


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A program in a process of its own that can import this module."""
    lead = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
    return subprocess.Popen(
        [sys.executable, "-c", lead + code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def all_at_once(code: str, count: int, *arguments: str) -> list[str]:
    """What so many processes print that pass their first input() together."""
    processes = [python(code, *arguments, str(number)) for number in range(count)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    outputs = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        outputs.append(output)
    return outputs
