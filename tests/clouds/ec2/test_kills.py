"""Controller and runners killed at random moments: each machine is rented once, paid once, and given back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ec2_books import assert_bill_is_true, lives
from ec2_settings import ec2_settings
from emulated import EmulatedEc2
from mlcd.api import Client
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.core.run import JobState
from mlcd.settings import read_settings
from random_kills import kill_at_random
from small_jobs import PROGRAM

pytestmark = pytest.mark.slow
KILLS, NODES = 10, 2
LATE_S = 20.0  # nobody is there to take note of a machine's end for a moment after each kill


@pytest.fixture
def client(ec2: EmulatedEc2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client whose controllers are processes of their own, and find their settings as users' do."""
    monkeypatch.setenv("MLCD_HOME", str(tmp_path / "home"))
    for name, value in asdict(ec2_settings(tmp_path).of(Ec2Settings)).items():
        monkeypatch.setenv(f"MLCD_EC2_{name}".upper(), str(value))
    made = Client(read_settings())
    yield made
    made.sweep(end=True, others=True)
    made.close()


SERVED = {  # a worker, and a parameter server of another type that keeps nothing
    "run": '[ "$MLCD_ROLE" = worker ] || exec sleep 1000; python train.py',
    "platform": "command",
    "servers": "c5.xlarge",
}


@pytest.mark.parametrize("more", [{}, SERVED], ids=["one type", "two types"])
def test_whoever_is_killed_ten_times_rents_once_and_leaves_nothing(
    ec2: EmulatedEc2, client: Client, tmp_path: Path, more: dict[str, Any]
) -> None:
    job_id = client.submit(client.load({**small_job(tmp_path / "code"), **more}))
    client.confirm(job_id)
    client.start(job_id)
    kills, ended = kill_at_random(client, job_id, random.Random(5), KILLS), client.store.job(job_id)
    assert kills == KILLS, f"{ended.state} after {kills} kills: {ended.error}"
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert len(view.trials) == len(view.run.attempts) == 1
    launched = Counter(life.launched_by for life in lives(ec2, job_id))
    assert launched[f"{job_id}-p1"] == NODES
    assert launched[f"{job_id}-t1"] <= NODES, "those that the probe's machines did not wait for"
    assert all(task.ended_at is not None for task in client.store.tasks(job_id))
    assert_bill_is_true(ec2, client, job_id, late_seconds=LATE_S)


def small_job(code: Path) -> dict[str, Any]:
    code.mkdir()
    (code / "train.py").write_text(PROGRAM)
    return {
        "name": "killed",
        "workdir": str(code),
        "run": "python train.py",
        "num_nodes": NODES,
        "cloud": "ec2",
        "resources": {"instance_type": "c5.large"},
        "search": "exhaustive",
        "work": {"samples": 16000},
        "probe": {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 3, "silent_seconds": 60},
        "checkpoint": {"grace_seconds": 2},
    }
