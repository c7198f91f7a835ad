"""A parameter store on a machine that mlcd rents, on an emulated EC2: used, billed, lost, and never rented twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from ec2_books import lives, machine_usd
from emulated import EmulatedEc2, emulated_ec2, wait_for
from function_tasks import Field, log_of, settings
from function_trainings import PROGRAM, curve, one_process, training
from mlcd.api import Client
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.core.records import BillItem
from mlcd.core.run import JobState
from mlcd.core.task import Charge, EndCause, Handle, Task, TaskState
from mlcd.settings import read_settings
from mlcd_functions import open_cloud
from mlcd_functions.cloud import FunctionsCloud
from mlcd_functions.files import TaskFiles
from mlcd_functions.settings import FunctionsSettings

pytestmark = pytest.mark.slow
TYPE = "c5n.large"
MACHINE = f"1 × {TYPE}"
USD_PER_HOUR = 0.108
KEEP_S = 120.0  # that the machine of a probe's store waits
LATE_S = 20.0  # a machine is billed from when it is asked for, and until its end is known here


class RentingField(Field):
    """The functions of this computer, with parameter stores on the emulated EC2."""

    def __init__(self, home: Path, ec2: EmulatedEc2, **changes: Any) -> None:
        given = {"parameters": "ec2", "straggler_seconds": 60.0, **changes}
        super().__init__(home, **given)
        ours = settings(home, **given)
        machines = Ec2Settings(python=sys.executable, start_seconds=5.0, keep_seconds=0.0)
        self.settings = replace(ours, clouds=(*ours.clouds, machines))
        self.cloud = FunctionsCloud(self.settings)
        self.ec2 = ec2
        self.job_id = uuid.uuid4().hex

    def task(self, run: str, **changes: Any) -> Task:
        """A task of a job of its own: the emulation remembers the machines of others."""
        return super().task(run, job_id=self.job_id, **changes)

    def rented(self) -> list[dict[str, Any]]:
        """Every machine there ever was for the task, as AWS tells it."""
        only = [{"Name": "tag:mlcd:job", "Values": [self.job_id]}]
        found = self.ec2.boto("ec2").describe_instances(Filters=only)["Reservations"]
        return [one for each in found for one in each["Instances"]]

    def hosts(self) -> list[dict[str, Any]]:
        return [one for one in self.rented() if one["State"]["Name"] in ("pending", "running")]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedEc2]:
    pytest.importorskip("asyncssh", reason="pip install 'mlcd[ec2]'")
    with emulated_ec2(tmp_path_factory.mktemp("ec2")) as ec2:
        yield ec2


@pytest.fixture
def field(running: EmulatedEc2, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[RentingField]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in running.env.items():
        monkeypatch.setenv(name, value)
    opened = RentingField(tmp_path / "home", running)
    yield opened
    opened.end_everything()
    running.terminate_all()


def test_functions_train_through_a_machine_that_is_rented_billed_and_given_back(
    field: RentingField, tmp_path: Path
) -> None:
    task = training(field, tmp_path, STEPS="20")
    status = field.run(task, nodes=2)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert curve(log_of(task)) == pytest.approx(one_process(tmp_path, 20), rel=1e-9)
    (machine,) = field.rented()
    assert machine["State"]["Name"] in ("shutting-down", "terminated")
    assert machine["InstanceType"] == TYPE
    charges = {charge.what: charge for charge in status.charges}
    assert {f"parameter store: {line}" for line in (MACHINE, "disk", "public addresses")} <= charges.keys()
    assert "parameter store" not in charges, "it is not paid for twice"
    assert_machines_are_paid(field.ec2, field.job_id, status.charges)


def assert_machines_are_paid(ec2: EmulatedEc2, job_id: str, bill: Sequence[Charge | BillItem]) -> None:
    """The machines of stores, each from its launch to its end, for a minute at least, and once."""
    paid = sum(life.charged_seconds for life in lives(ec2, job_id))
    name = "parameter store: "
    lines = [replace(line, what=line.what.removeprefix(name)) for line in bill if line.what.startswith(name)]
    assert USD_PER_HOUR * (paid - 2.0) < 3600 * machine_usd(lines) < USD_PER_HOUR * (paid + LATE_S)


def test_the_password_is_in_no_tag_no_user_data_and_no_log(field: RentingField, tmp_path: Path) -> None:
    task = training(field, tmp_path, STEPS="30", PAUSE="0.2")
    handle = field.launch(task, nodes=2)
    field.wait(handle, lambda status: status.progress.steps >= 3)
    files = TaskFiles.of(field.cloud.home, handle)
    password = str(json.loads((files.root / "store.json").read_text())["password"])
    assert (files.root / "store.json").stat().st_mode & 0o077 == 0
    (machine,) = field.hosts()
    data = field.ec2.boto("ec2").describe_instance_attribute(InstanceId=machine["InstanceId"], Attribute="userData")
    assert password not in f"{machine}{data}"
    lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if password in line]
    assert field.wait(handle).state is TaskState.SUCCEEDED
    home = [path for path in field.home.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
    assert home == []


def test_a_machine_that_dies_is_replaced_and_all_go_on_from_their_last_iteration(
    field: RentingField, tmp_path: Path
) -> None:
    task = training(field, tmp_path, STEPS="60", PAUSE="0.2", KEEP="1", SAVE="1000")
    handle = field.launch(task, nodes=2)
    field.wait(handle, lambda status: status.progress.steps >= 10)
    (machine,) = field.hosts()
    field.ec2.fault("poweroff", machine["InstanceId"])
    status = field.wait(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert "the parameter store was lost" in log_of(task)
    assert curve(log_of(task)) == pytest.approx(one_process(tmp_path, 60), rel=1e-9)
    assert status.progress.samples <= (60 + 2) * 32, "no more than the last iteration is done again"
    assert len(field.rented()) == 2
    assert field.hosts() == []


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_killed_while_renting_and_training_the_machine_is_rented_once(
    field: RentingField, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    task = training(field, tmp_path, STEPS="60", PAUSE="0.2")
    handle = field.launch(task, nodes=2)
    kills = 0
    while not (status := field.cloud.status(handle)).state.ended:
        if kills < 8:
            time.sleep(chance.uniform(0.1, 2.0))
            kills += kill_runners(field.home, chance)
        time.sleep(0.1)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert curve(log_of(task)) == pytest.approx(one_process(tmp_path, 60), rel=1e-9)
    assert kills >= 8
    assert len(field.rented()) == 1
    assert field.hosts() == []


def kill_runners(home: Path, chance: random.Random) -> int:
    """SIGKILL for the runner of the functions, that of the machine, or both."""
    lines = {process.pid: process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])}
    ours = [
        pid
        for pid, line in lines.items()
        if "mlcd.clouds.tasks.runner" in line and any(str(home) in part for part in line)
    ]
    victims = [pid for pid in ours if chance.random() < 0.7]
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(victims)


def test_a_runner_that_is_killed_at_the_end_leaves_nothing_and_the_next_rents_nothing(
    field: RentingField, tmp_path: Path
) -> None:
    task = training(field, tmp_path, STEPS="10")
    handle = field.launch(task, nodes=2)
    field.wait_until_running(handle)
    wait_for(lambda: field.state(handle).outcome, "its functions to have ended")
    os.kill(field.state(handle).pid, signal.SIGKILL)
    status = field.wait(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert curve(log_of(task)) == pytest.approx(one_process(tmp_path, 10), rel=1e-9)
    assert len(field.rented()) == 1
    assert field.hosts() == []
    assert_machines_are_paid(field.ec2, field.job_id, status.charges)


def test_where_there_is_no_room_for_the_machine_the_task_says_so_and_no_function_is_invoked(
    field: RentingField, tmp_path: Path
) -> None:
    task = training(field, tmp_path, STEPS="5")
    field.ec2.fault("no-capacity", TYPE)
    try:
        status = field.run(task, nodes=2)
    finally:
        field.ec2.fault("no-capacity", TYPE, "off")
    assert (status.cause, field.state(task.id).invocations) == (EndCause.NO_CAPACITY, 0)
    assert status.usd == 0.0
    assert field.rented() == []


def test_the_limit_counts_from_the_machine_on_and_ends_it(field: RentingField, tmp_path: Path) -> None:
    task = replace(training(field, tmp_path, STEPS="100000", PAUSE="0.2"), max_seconds=25.0)
    status = field.run(task, nodes=2)
    assert status.cause is EndCause.TIME_LIMIT, (status, log_of(task))
    assert field.hosts() == []
    (life,) = lives(field.ec2, field.job_id)
    assert status.started_at == pytest.approx(life.launched_at, abs=2.0)
    assert life.ended_at is not None
    assert 23.0 < life.ended_at - life.launched_at < 25.0 + LATE_S


def test_a_stop_while_it_boots_gives_it_back(field: RentingField, tmp_path: Path) -> None:
    handle = field.launch(training(field, tmp_path, STEPS="5"), nodes=2)
    wait_for(field.rented, "the machine to be rented")
    field.cloud.stop(handle)
    field.cloud.stop(handle)
    status = field.wait(handle)
    assert status.state is TaskState.STOPPED
    assert field.hosts() == []
    assert field.state(handle).invocations == 0


def test_the_machine_is_owned_as_long_as_the_task_needs_it_and_a_single_function_has_none(
    field: RentingField, tmp_path: Path
) -> None:
    assert field.cloud.offers()[0].store_usd_per_hour > 0.108
    task = training(field, tmp_path, STEPS="20", PAUSE="0.2")
    handle = field.launch(task, nodes=2)
    field.wait(handle, lambda status: status.progress.steps >= 3)
    owned = {each.handle: each for each in field.cloud.owned()}
    assert set(owned) == {handle, store_of(field, handle)}
    assert owned[store_of(field, handle)].task_id == handle
    field.wait(handle)
    assert list(field.cloud.owned()) == []


def store_of(field: RentingField, handle: Handle) -> str:
    return field.state(handle).stores[-1]


def test_the_check_tries_all_that_renting_needs(field: RentingField) -> None:
    findings = {each.what: each for each in open_cloud.findings(field.settings)}
    assert [each for each in findings.values() if not each.ok] == []
    assert "c5n.large, 5.25 GiB" in findings["parameter store: machine"].detail
    field.ec2.fault("deny", "RunInstances")
    try:
        findings = {each.what: each for each in open_cloud.findings(field.settings)}
    finally:
        field.ec2.fault("deny", "RunInstances", "off")
    missing = findings["parameter store: us-east-1: ec2:RunInstances"]
    assert (missing.ok, "ec2:RunInstances is missing" in missing.detail) == (False, True)


def test_a_job_is_searched_trained_and_billed_with_one_machine_for_the_stores_of_its_tasks(
    field: RentingField, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store of the training takes over the machine that the probe's store leaves."""
    client = client_of(field, monkeypatch)
    try:
        job_id = client.submit(client.load(job(tmp_path / "program")))
        client.confirm(job_id)
        client.start(job_id)
        view = list(client.follow(job_id))[-1]
        assert view.record.state is JobState.SUCCEEDED, view.record.error
        wait_for(lambda: not client.sweep() and not field.ec2.hosts(), "the machine to be given back")
        assert len(lives(field.ec2, job_id)) == 1
        assert_machines_are_paid(field.ec2, job_id, view.bill)
        assert sum(item.usd for item in view.bill) == pytest.approx(view.spent.usd)
    finally:
        client.sweep(end=True, others=True)
        client.close()


def client_of(field: RentingField, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Its controllers are processes of their own, and find their settings as users' do."""
    monkeypatch.setenv("MLCD_HOME", str(field.home))
    machines = replace(field.settings.of(Ec2Settings), keep_seconds=KEEP_S)
    for section in (field.settings.of(FunctionsSettings), machines):
        for name, value in asdict(section).items():
            monkeypatch.setenv(f"MLCD_{section.section}_{name}".upper(), str(value))
    return Client(read_settings())


def job(workdir: Path) -> dict[str, Any]:
    workdir.mkdir()
    shutil.copy(PROGRAM, workdir / "train.py")
    return {
        "name": "rents",
        "workdir": str(workdir),
        "run": "python train.py",
        "num_nodes": 2,
        "cloud": "functions",
        "resources": {"instance_type": "fn-3538mb"},
        "search": {"strategy": "exhaustive", "kinds": ["function"]},
        "work": {"samples": 60 * 32},
        "envs": {"STEPS": "60", "PAUSE": "0.1"},
        "probe": {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 3, "silent_seconds": 120},
        "checkpoint": {"grace_seconds": 2},
    }
