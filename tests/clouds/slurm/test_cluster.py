"""The cluster of these tests ends with whoever started it, however that ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from slurm_cluster import why_not

STARTS = "import time; from slurm_cluster import SlurmCluster; print(SlurmCluster().root, flush=True); time.sleep(600)"


@pytest.mark.slow
@pytest.mark.xdist_group("slurm")
def test_a_killed_test_leaves_no_daemon() -> None:
    if why := why_not():
        pytest.skip(why)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    starter = subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True, env=env)
    assert starter.stdout is not None
    root = starter.stdout.readline().strip()
    started = psutil.Process(starter.pid).children(recursive=True)
    names = {process.name() for process in started}
    starter.send_signal(signal.SIGKILL)
    starter.wait(10)
    shutil.rmtree(root, ignore_errors=True)
    assert {"munged", "slurmctld", "slurmd"} <= names
    assert psutil.wait_procs(started, timeout=20)[1] == []
