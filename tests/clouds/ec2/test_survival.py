"""Leases and refusals on emulated hosts: nothing is left, and what is sold out is learnt."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from ec2_settings import ec2_settings
from emulated import EmulatedEc2, wait_for
from mlcd.api import Client
from mlcd.clouds.ec2 import open_cloud
from mlcd.clouds.ec2.machines import Ec2Machines
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.clouds.remote.base import Machine
from mlcd.core.machines import Deployment, Offer
from mlcd.core.run import JobState
from mlcd.core.task import Task, TaskKind, TaskState
from mlcd.core.trial import FailureKind
from mlcd.errors import CloudError
from mlcd.settings import Settings, read_settings
from mlcd_emulate.command import _environment
from small_jobs import PROGRAM

pytestmark = pytest.mark.slow
PATIENCE_S = 300.0


def instances(ec2: EmulatedEc2, task_id: str) -> list[dict[str, Any]]:
    """All that were ever rented for a task, as the provider's records say."""
    only = [{"Name": "tag:mlcd:task", "Values": [task_id]}]
    found = ec2.boto("ec2").describe_instances(Filters=only)["Reservations"]
    return [one for each in found for one in each["Instances"]]


def alive(ec2: EmulatedEc2, task_id: str) -> list[dict[str, Any]]:
    return [one for one in instances(ec2, task_id) if one["State"]["Name"] in ("pending", "running")]


def kill_runners(home: Path) -> None:
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "mlcd.clouds.tasks.runner" in line and any(str(home) in part for part in line):
            process.kill()


def plain_offer(settings: Settings, name: str = "c5.large") -> Offer:
    offers = open_cloud(settings, {}).offers()
    return next(offer for offer in offers if offer.instance.name == name and not offer.spot)


def task_in(home: Path, run: str, task_id: str = "killed-t1") -> Task:
    folder = home / "jobs" / task_id
    return Task(task_id, "killed", TaskKind.TRAINING, "command", run, folder=str(folder), grace_seconds=1.0)


def test_a_machine_that_nobody_hears_of_ends_itself(ec2: EmulatedEc2, tmp_path: Path) -> None:
    settings = ec2_settings(tmp_path, lease_seconds=40.0)
    cloud = open_cloud(settings, {})
    task = task_in(tmp_path, "echo up; sleep 1000")
    handle = cloud.launch(task, Deployment(plain_offer(settings), 1), {})
    wait_for(lambda: "up" in cloud.status(handle).log_tail, "the program", PATIENCE_S)
    kill_runners(tmp_path)
    wait_for(lambda: not alive(ec2, task.id), "the machine to end by itself", PATIENCE_S)
    assert wait_for(lambda: (s := cloud.status(handle)).state.ended and s, "its end").state is TaskState.LOST


def test_a_machine_that_waits_for_the_next_task_says_until_when(ec2: EmulatedEc2, tmp_path: Path) -> None:
    settings = ec2_settings(tmp_path)
    cloud = open_cloud(settings, {})
    task = replace(task_in(tmp_path, "true", "kept-p1"), kind=TaskKind.PROBE)
    handle = cloud.launch(task, Deployment(plain_offer(settings), 1), {})
    wait_for(lambda: cloud.status(handle).state.ended, "its end", PATIENCE_S)
    (owned,) = cloud.owned()
    assert (owned.task_id, owned.job_id) == (task.id, "killed")
    assert owned.kept_until is not None
    assert owned.kept_until > owned.since
    cloud.stop(handle)
    wait_for(lambda: not list(cloud.owned()), "the machine to be given back")


@pytest.fixture
def client(ec2: EmulatedEc2, tmp_path: Path) -> Iterator[Client]:
    """A client whose jobs run on the emulated hosts."""
    made = Client(ec2_settings(tmp_path / "home", lost_seconds=10.0))
    yield made
    made.sweep(end=True, others=True)
    made.close()


def test_a_type_that_is_sold_out_is_learnt_and_another_is_taken(
    ec2: EmulatedEc2, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(PROGRAM)
    ec2.fault("no-capacity", "c5.large")
    try:
        job_id = client.submit(client.load(_small_job(tmp_path / "code")))
        client.confirm(job_id)
        view = client.drive(job_id)
    finally:
        ec2.fault("no-capacity", "c5.large", "off")
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    failed = {trial.deployment.offer.instance.name: trial.failure for trial in view.trials if trial.failure}
    assert failed["c5.large"].reason is FailureKind.NO_CAPACITY
    assert view.record.deployment.offer.instance.name == "m5.large"
    assert json.loads((Path(view.model) / "model.json").read_text())["done"] >= 2000


def test_a_torch_program_runs_on_the_emulation_as_its_page_says(
    ec2: EmulatedEc2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("MLCD_HOME", str(tmp_path / "home"))
    for name, value in _environment(ec2.state).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("import torch\n" + PROGRAM)
    made = Client(read_settings())
    large = {"resources": {"instance_type": "c5.2xlarge"}}
    job_id = made.submit(made.load({**_small_job(tmp_path / "code"), **large}))
    made.confirm(job_id)
    view = made.drive(job_id)
    made.close()
    assert view.record.state is JobState.SUCCEEDED, view.record.error


def test_machines_that_may_not_be_given_back_are_told_of_at_once(ec2: EmulatedEc2, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(PROGRAM)
    client = Client(ec2_settings(tmp_path / "home", keep_seconds=0.0))
    job_id = client.submit(client.load(_small_job(tmp_path / "code")))
    client.confirm(job_id)
    ec2.fault("deny", "TerminateInstances")
    with ThreadPoolExecutor(1) as pool:
        driving = pool.submit(client.drive, job_id)
        try:
            told = wait_for(lambda: driving.done() or _warnings(client, job_id), "a warning", PATIENCE_S)
        finally:
            ec2.fault("deny", "TerminateInstances", "off")
    client.close()
    assert driving.result().record.state is JobState.SUCCEEDED, driving.result().record.error
    assert told is not True, "nobody was told"
    assert "could not be given back" in told[0]
    assert "ec2:TerminateInstances" in told[0]


def _warnings(client: Client, job_id: str) -> list[str]:
    return [event.message for event in client.events(job_id) if event.kind == "warning"]


def test_data_in_a_bucket_goes_straight_to_the_machines(ec2: EmulatedEc2, client: Client, tmp_path: Path) -> None:
    store = ec2.boto("s3")
    store.create_bucket(Bucket="images")
    store.put_object(Bucket="images", Key="train/a.bin", Body=b"a" * 3000)
    (tmp_path / "code").mkdir()
    reads = 'import os; assert os.path.getsize("/data/a.bin") == os.path.getsize("more/a.bin") == 3000\n'
    (tmp_path / "code" / "train.py").write_text(reads + PROGRAM)
    one_type = {"resources": {"instance_type": "c5.large"}}
    mounts = {"file_mounts": {"/data": "s3://images/train", "more": "s3://images/train/"}}
    job_id = client.submit(client.load({**_small_job(tmp_path / "code"), **one_type, **mounts}))
    client.confirm(job_id)
    view = client.drive(job_id)
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert "2 files" in "".join(client.logs(job_id))


def _small_job(code: Path) -> dict[str, Any]:
    return {
        "name": "small",
        "workdir": str(code),
        "run": "python train.py",
        "work": {"samples": 2000},
        "goal": "fastest",
        "search": "exhaustive",
        "cloud": "ec2",
        "resources": {"any_of": [{"instance_type": "c5.large"}, {"instance_type": "m5.large"}]},
        "probe": {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 3, "silent_seconds": 60},
        "checkpoint": {"grace_seconds": 2},
    }


def test_one_instance_that_is_not_known_does_not_keep_the_others_alive(ec2: EmulatedEc2, tmp_path: Path) -> None:
    machines = Ec2Machines(tmp_path, ec2_settings(tmp_path).of(Ec2Settings), ["us-east-1"])
    made = ec2.boto("ec2").run_instances(ImageId=ec2.image, MinCount=1, MaxCount=1, InstanceType="c5.large")
    real = Machine(made["Instances"][0]["InstanceId"], "", "", time.time(), details={"region": "us-east-1"})
    gone = replace(real, id="i-0123456789abcdef0", billed_from=0.0)
    machines.release([gone, real])
    state = ec2.boto("ec2").describe_instances(InstanceIds=[real.id])["Reservations"][0]["Instances"][0]["State"]
    assert state["Name"] in ("shutting-down", "terminated")
    with pytest.raises(CloudError, match="does not know i-0123456789abcdef0 yet"):
        machines.release([replace(gone, billed_from=time.time())])


def test_a_terminated_instance_ended_when_aws_says_so(ec2: EmulatedEc2, tmp_path: Path) -> None:
    machines = Ec2Machines(tmp_path, ec2_settings(tmp_path).of(Ec2Settings), ["us-east-1"])
    began = time.time()
    made = ec2.boto("ec2").run_instances(ImageId=ec2.image, MinCount=1, MaxCount=1, InstanceType="c5.large")
    one = Machine(made["Instances"][0]["InstanceId"], "", "", began, details={"region": "us-east-1"})
    assert machines.ended_at(one) is None
    machines.release([one])
    told = wait_for(lambda: machines.ended_at(one), "the end in AWS's books")
    assert began - 1.0 <= told <= time.time() + 1.0, "to the second"
    assert machines.ended_at(replace(one, id="i-0123456789abcdef0")) is None
