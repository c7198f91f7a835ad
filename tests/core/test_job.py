"""The nouns of a job: what an earlier version stored is read by this one, and importing them is cheap."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from mlcd.core.job import Direction, Job, OnNan
from mlcd.core.serial import from_json, to_data

STORED = Path(__file__).with_name("stored_job.json")  # by mlcd 0.1


def test_a_job_that_version_0_1_stored_is_read_and_loses_nothing() -> None:
    job = from_json(Job, STORED.read_text())
    assert job.work is not None
    assert job.work.until is not None
    assert (job.work.until.direction, job.on_nan, job.nodes.most) == (Direction.DOWN, OnNan.STOP, 8)
    assert holds(to_data(job), json.loads(STORED.read_text()))


def holds(now: Any, stored: Any) -> bool:
    """Whether all that was stored is there; keys that came later may stand beside it."""
    if isinstance(stored, dict):
        return all(key in now and holds(now[key], value) for key, value in stored.items())
    if isinstance(stored, list):
        return len(now) == len(stored) and all(map(holds, now, stored))
    return bool(now == stored)


def test_a_task_s_process_imports_neither_pydantic_nor_yaml() -> None:
    code = "import sys, mlcd.core.task; print({'pydantic', 'ruamel', 'mlcd.core.jobfile'} & sys.modules.keys())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
