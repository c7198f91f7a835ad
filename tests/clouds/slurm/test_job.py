"""Whole jobs on a real Slurm cluster: searched, trained on two nodes, moved off a node that fails, killed at random."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mlcd.api import Client
from mlcd.clouds.slurm.script import job_name
from mlcd.clouds.slurm.settings import SlurmSettings
from mlcd.clouds.slurm.tables import read_duration
from mlcd.core.run import JobState
from mlcd.core.task import EndCause
from mlcd.core.trial import FailureKind
from mlcd.settings import read_settings
from random_kills import OVER, kill_at_random
from slurm_cluster import SlurmCluster
from small_jobs import PROGRAM

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "digits"
DDP = Path(__file__).resolve().parents[1] / "ec2" / "ddp_program.py"
KILLS, NODES = 8, 2
DIGITS = f"""
name: digits
workdir: {EXAMPLE}
run: python train.py
cloud: slurm
platform: pytorch
num_nodes: 2
resources: {{instance_type: main+small}}
work: {{epochs: 5, dataset_size: 1437}}
batch_size: 64
search: {{strategy: random, max_probes: 1}}
probe: {{warmup_seconds: 0.2, min_seconds: 0.5, max_seconds: 5}}
"""


@pytest.fixture
def environment(slurm_settings: SlurmSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings as users have them: every process of the job reads them."""
    monkeypatch.setenv("MLCD_HOME", str(tmp_path / "home"))
    for name, value in asdict(slurm_settings).items():
        monkeypatch.setenv(f"MLCD_SLURM_{name}".upper(), str(value))


@pytest.fixture
def client(environment: None) -> Iterator[Client]:
    """A client whose jobs run there."""
    made = Client(read_settings())
    yield made
    made.sweep(end=True, others=True)
    made.close()


def small_job(code: Path, program: str, **more: Any) -> dict[str, Any]:
    code.mkdir()
    (code / "train.py").write_text(program)
    return {
        "name": "small",
        "workdir": str(code),
        "run": "python train.py",
        "cloud": "slurm",
        "num_nodes": NODES,
        "resources": {"instance_type": "main+small"},
        "search": {"strategy": "random", "max_probes": 1},
        "probe": {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 5},
        **more,
    }


def mlcd(*words: str) -> subprocess.CompletedProcess[str]:
    """The main command, as a user types it."""
    return subprocess.run([sys.executable, "-m", "mlcd", *words], capture_output=True, text=True, timeout=300)


def test_two_nodes_train_together_by_the_main_command_free_of_charge(
    environment: None, cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    monkeypatch.setenv("MLCD_SLURM_PRICES", "")
    (tmp_path / "job.yaml").write_text(DIGITS)
    done = mlcd("run", str(tmp_path / "job.yaml"), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    client = Client(read_settings())
    (view,) = client.views()
    assert view.record.state is JobState.SUCCEEDED
    assert view.record.deployment.nodes == 2
    assert json.loads((Path(view.model) / "metrics.json").read_text())["test_accuracy"] > 0.6
    assert view.spent.usd == 0.0
    assert client.sweep() == []
    client.close()
    cluster.wait(cluster.all_idle)


def test_a_node_that_fails_is_replaced_and_the_training_goes_on(
    client: Client, cluster: SlurmCluster, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    job = small_job(tmp_path / "code", DDP.read_text(), platform="pytorch", work={"samples": 32 * 1000}, batch_size=32)
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    client.start(job_id)
    wait_for_samples(client, job_id, 32 * 100)
    failed, limit = cluster.command("squeue", "-h", "-o", "%N %l", "-t", "R").split()
    cluster.kill("slurmd", "n2")
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    first, second = view.run.attempts
    assert failed == "n[1-2]"
    assert 900 < (read_duration(limit) or 0) < 3600, "by the forecast, for the job has no limit"
    assert first.cause is EndCause.NODE_LOST
    assert "NODE_FAIL" in first.why
    assert second.samples_before >= 32 * 100
    assert sum(item.usd for item in view.bill) == pytest.approx(view.spent.usd)


def test_whoever_is_killed_at_random_submits_once_and_leaves_nothing(
    client: Client, cluster: SlurmCluster, tmp_path: Path
) -> None:
    job = small_job(tmp_path / "code", PROGRAM, work={"samples": 12000})
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    client.start(job_id)
    assert kill_at_random(client, job_id, random.Random(5), KILLS) == KILLS
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert len(view.trials) == len(view.run.attempts) == 1
    for task in client.store.tasks(job_id):
        submitted = cluster.command("squeue", "-h", "--states=all", f"--name={job_name(task.id)}", "-o", "%i").split()
        assert len(submitted) == 1, task.id
        assert task.ended_at is not None
    assert sum(item.usd for item in view.bill) == pytest.approx(view.spent.usd)
    assert view.spent.usd > 0
    assert client.sweep(others=True) == []
    cluster.wait(cluster.all_idle)


def test_waiting_in_the_queue_counts_for_the_deadline_and_costs_nothing(
    client: Client, cluster: SlurmCluster, tmp_path: Path
) -> None:
    cluster.command("sbatch", "-N", "3", "--exclusive", "--time=1", "--job-name=other", "--wrap", "sleep 600")
    cluster.wait(lambda: "other" in cluster.command("squeue", "-h", "-t", "R", "-o", "%j"))
    job = small_job(tmp_path / "code", PROGRAM, work={"samples": 1000}, deadline="40s")
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    view = client.drive(job_id)
    assert view.record.state in (JobState.PAUSED, JobState.FAILED), view.record.error
    assert {trial.failure.reason for trial in view.trials if trial.failure} == {FailureKind.NO_CAPACITY}
    assert view.spent.usd == 0.0
    assert cluster.jobs() == ["other"]


def wait_for_samples(client: Client, job_id: str, samples: float) -> None:
    """Until the training has come so far."""
    give_up_at = time.monotonic() + 120
    while True:
        view = client.view(job_id)
        attempts = view.run.attempts
        if attempts and attempts[-1].samples >= samples:
            return
        assert view.record.state not in OVER, view.record.error
        assert time.monotonic() < give_up_at, "it did not come so far"
        time.sleep(0.3)
