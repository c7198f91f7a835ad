"""Spark's own cluster over two machines of the emulated EC2: it trains there, and its passes are counted."""

from __future__ import annotations

import importlib.util
import json
import shutil
import time
from pathlib import Path

import pytest

from ec2_settings import ec2_settings
from emulated import EmulatedEc2
from mlcd.clouds.ec2 import open_cloud
from mlcd.core.machines import Deployment
from mlcd.core.task import Task, TaskFolder, TaskKind, TaskState

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "digits_spark"
EPOCH = 2 * 1437  # samples of the example with two copies of each image
PASSES = 15
TYPE = "m5.xlarge"  # a GiB is 256 MiB on the emulated EC2, but not for a Java runtime
PATIENCE_SECONDS = 540.0  # a cluster is six Java processes

pytestmark = pytest.mark.slow


def test_it_trains_on_two_machines_and_its_passes_are_counted(ec2: EmulatedEc2, tmp_path: Path) -> None:
    for package in ("pyspark", "sklearn"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    if shutil.which("java") is None:
        pytest.skip("there is no Java runtime")
    cloud = open_cloud(ec2_settings(tmp_path / "home", types=TYPE), {})
    offer = next(each for each in cloud.offers() if not each.spot)
    task = Task(
        "j-t1",
        "j",
        TaskKind.TRAINING,
        "spark",
        "spark-submit train.py",
        workdir=str(EXAMPLE),
        envs={"COPIES": "2"},
        samples=float(PASSES * EPOCH),
        samples_per_epoch=float(EPOCH),
        folder=str(tmp_path / "task"),
    )
    handle = cloud.launch(task, Deployment(offer, 2), {})
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not (status := cloud.status(handle)).state.ended:
        assert time.monotonic() < give_up_at, status
        time.sleep(0.5)
    folder = TaskFolder(Path(task.folder))
    logs = [folder.log(node).read_text() for node in range(2)]
    assert status.state is TaskState.SUCCEEDED, "\n".join([status.reason, *logs])
    assert status.progress.samples % EPOCH == 0
    assert PASSES * EPOCH <= status.progress.samples <= 2 * PASSES * EPOCH
    assert json.loads((folder.outputs / "metrics.json").read_text())["test_accuracy"] >= 0.9
    assert all("Asked to launch executor" in log for log in logs)
    assert list(cloud.owned()) == []
