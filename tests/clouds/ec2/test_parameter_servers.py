"""A parameter-server training whose servers are of another type than its workers, from search to bill."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2_settings import ec2_settings
from emulated import EmulatedEc2
from mlcd.api import Client
from mlcd.clouds.ec2 import open_cloud
from mlcd.core.machines import Deployment
from mlcd.core.run import JobState
from mlcd.core.task import EndCause, Task, TaskKind, TaskState
from mlcd.core.view import JobView
from mlcd.errors import InvalidJobError
from mlcd.search.bandwidth import measured_mbps

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("ps_program.py")
PARAMETERS, BATCH = 50_000, 8
JOB: dict[str, Any] = {
    "name": "served",
    "run": "python train.py",
    "platform": "command",
    "topology": "ps",
    "cloud": "ec2",
    "num_nodes": "2..4",
    "resources": {"instance_type": "c5.large"},
    "envs": {"PARAMETERS": str(PARAMETERS)},
    "work": {"samples": 2400},
    "probe": {"warmup_seconds": 1, "min_seconds": 7, "max_seconds": 12, "silent_seconds": 120},
    "checkpoint": {"carry": False},
    "goal": "cheapest",
    "elastic": False,
    "search": {"strategy": "scala-opt", "options": {"usd_per_hour": 0.33}},
}


@pytest.fixture
def client(ec2: EmulatedEc2, tmp_path: Path) -> Iterator[Client]:
    """A client of two types: plain ones, and some with a network that is four times as fast."""
    (tmp_path / "code").mkdir()
    shutil.copyfile(PROGRAM, tmp_path / "code" / "train.py")
    made = Client(ec2_settings(tmp_path / "home", types="c5.large, c5n.large"))
    yield made
    made.sweep(end=True, others=True)
    made.close()


def train(client: Client, folder: Path, **changes: Any) -> JobView:
    job_id = client.submit(client.load({**JOB, "workdir": str(folder / "code"), **changes}))
    client.confirm(job_id)
    return client.drive(job_id)


def test_a_recommender_finds_rents_and_pays_servers_of_another_type(
    client: Client, ec2: EmulatedEc2, tmp_path: Path
) -> None:
    view = train(client, tmp_path)
    assert view.record.state is JobState.SUCCEEDED, f"{view.record.error}\n{list(client.logs(view.record.id))}"
    assert [str(trial.deployment) for trial in view.trials] == [
        "1 × c5.large + 1 × c5n.large serving",
        "2 × c5.large + 1 × c5n.large serving",  # $0.32 of $0.33 an hour; a third worker would pass it
    ]
    assert_measured_for_itself(view)
    assert_billed_by_type(view)
    assert Path(view.model, "weight.txt").read_text() == "3.000"
    assert ec2.hosts() == [] or not list(client.sweep())

    again = train(client, tmp_path)
    assert again.record.state is JobState.SUCCEEDED, again.record.error
    assert [str(trial.deployment) for trial in again.trials] == ["2 × c5.large + 1 × c5n.large serving"]
    assert f"measured by job {view.record.id}" in again.plan_reason


def assert_measured_for_itself(view: JobView) -> None:
    """What a worker receives is the parameters, once in a step."""
    for trial in view.trials:
        assert trial.measurement is not None
        steps_per_second = trial.measurement.samples_per_second / BATCH / trial.deployment.workers
        expected = 32.0 * PARAMETERS * steps_per_second / 1e6
        assert measured_mbps(trial.deployment, trial.measurement) == pytest.approx(expected, rel=0.3)


def assert_billed_by_type(view: JobView) -> None:
    plan = view.record.plan
    assert plan is not None
    assert plan.deployment.usd_per_hour <= 0.33
    trained = {line.what: line for line in view.bill if line.kind is TaskKind.TRAINING}
    workers, servers = trained["2 × c5.large"], trained["1 × c5n.large serving"]
    assert workers.usd / servers.usd == pytest.approx(2 * 0.085 / 0.108)


def test_servers_that_cannot_be_had_leave_no_machine_and_what_was_rented_is_paid(
    client: Client, ec2: EmulatedEc2, tmp_path: Path
) -> None:
    cloud = open_cloud(ec2_settings(tmp_path / "home", types="c5.large, c5n.large"), {})
    plain, fast = (offer for offer in sorted(cloud.offers(), key=lambda each: each.name) if not offer.spot)
    where = Deployment(plain, 2, servers=1, server_offer=fast)
    task = Task("j-t1", "j", TaskKind.TRAINING, "command", "true", folder=str(tmp_path / "task"))
    ec2.fault("no-capacity", "c5n.large")
    try:
        handle = cloud.launch(task, where, {})
        while not (status := cloud.status(handle)).state.ended:
            time.sleep(0.2)
    finally:
        ec2.fault("no-capacity", "c5n.large", "off")
    assert (status.state, status.cause) == (TaskState.FAILED, EndCause.NO_CAPACITY), status
    assert status.charges[0].what == "1 × c5.large"
    assert not any("c5n" in charge.what for charge in status.charges)
    assert status.usd >= plain.usd_per_hour / 60.0, "the minimum of a minute"
    assert list(cloud.owned()) == []


def test_machines_of_both_types_wait_for_the_next_task(client: Client, tmp_path: Path) -> None:
    """A probe's machines are the training's: nothing is rented anew."""
    keys = {**JOB, "num_nodes": 2, "search": {"strategy": "scala-opt-m"}, "work": {"samples": 1600}}
    job_id = client.submit(client.load({**keys, "workdir": str(tmp_path / "code"), "servers": "c5n.large"}))
    client.confirm(job_id)
    view = client.drive(job_id)
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert [line.what for line in view.bill if line.what.startswith("paid while kept")] != []


def test_a_server_type_that_is_not_sold_is_refused_before_anything_is_rented(
    client: Client, ec2: EmulatedEc2, tmp_path: Path
) -> None:
    loaded = client.load({**JOB, "workdir": str(tmp_path / "code"), "servers": "c5n.lrage"})
    with pytest.raises(InvalidJobError, match=r"No parameter server can be of type c5n\.lrage") as raised:
        client.submit(loaded)
    assert "Did you mean 'c5n.large'" in raised.value.hint
    assert ec2.hosts() == []
