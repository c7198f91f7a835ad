"""Which machines are rented: in one zone where it has room, and never fewer than those at hand."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ec2_settings import ec2_settings
from emulated import EmulatedEc2
from mlcd.clouds.ec2 import open_cloud
from mlcd.clouds.ec2.machines import Ec2Machines
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.clouds.remote.base import BusyError, PartlyRentedError
from mlcd.clouds.remote.files import TaskFiles
from mlcd.core.machines import Deployment
from mlcd.errors import NoCapacityError

pytestmark = pytest.mark.slow

TYPE = "c5.large"


def machines_of(folder: Path, task_id: str) -> Ec2Machines:
    """The provider, as the runner of a task has it."""
    files = TaskFiles(folder / task_id)
    files.root.mkdir(parents=True)
    return Ec2Machines(folder, ec2_settings(folder).of(Ec2Settings), ["us-east-1"], files)


def pair(folder: Path) -> Deployment:
    offers = open_cloud(ec2_settings(folder, types=TYPE), {}).offers()
    return Deployment(next(offer for offer in offers if not offer.spot), 2)


def test_a_node_that_is_lost_in_a_sold_out_zone_is_rented_in_another_and_the_survivor_stays(
    ec2: EmulatedEc2, tmp_path: Path
) -> None:
    deployment = pair(tmp_path)
    before = machines_of(tmp_path, "j-t1").acquire("j-t1", "j", deployment, [])
    zone = before[0].zone
    assert [machine.zone for machine in before] == [zone, zone]
    machines = machines_of(tmp_path, "j-t2")
    machines.release(before[1:])
    ec2.fault("no-capacity", f"{TYPE}/{zone}")
    try:
        after = machines.acquire("j-t2", "j", deployment, before[:1])
    finally:
        ec2.fault("no-capacity", f"{TYPE}/{zone}", "off")
    assert after[0].id == before[0].id
    assert len(after) == 2
    assert after[1].zone != zone


def test_where_servers_cannot_be_had_the_workers_are_told_and_found_again(ec2: EmulatedEc2, tmp_path: Path) -> None:
    """Both types in one call each; whoever asks again rents no worker twice."""
    cloud = open_cloud(ec2_settings(tmp_path, types="c5.large, c5.xlarge"), {})
    plain, large = sorted((offer for offer in cloud.offers() if not offer.spot), key=lambda offer: offer.name)
    deployment = Deployment(large, 3, servers=2, server_offer=plain)
    machines = machines_of(tmp_path, "j-t1")
    ec2.fault("no-capacity", TYPE)
    try:
        with pytest.raises(PartlyRentedError) as raised:
            machines.acquire("j-t1", "j", deployment, [])
    finally:
        ec2.fault("no-capacity", TYPE, "off")
    assert isinstance(raised.value.cause, NoCapacityError)
    (worker,) = raised.value.machines
    rented = machines.acquire("j-t1", "j", deployment, [])
    assert [machine.details["type"] for machine in rented] == ["c5.xlarge", TYPE, TYPE]
    assert rented[0].id == worker.id
    assert [machine.id for machine in machines.acquire("j-t1", "j", deployment, [])] == [each.id for each in rented]
    assert len(ec2.instances()) == 3


def test_workers_are_not_rented_again_where_the_servers_are(
    ec2: EmulatedEc2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill AWS may not show yet what it has rented out: the same call in the same zone gives the same machines."""
    cloud = open_cloud(ec2_settings(tmp_path, types="c5.large, c5.xlarge"), {})
    plain, large = sorted((offer for offer in cloud.offers() if not offer.spot), key=lambda offer: offer.name)
    deployment = Deployment(large, 2, servers=1, server_offer=plain)
    machines = machines_of(tmp_path, "j-t1")
    ec2.fault("no-capacity", f"{TYPE}/us-east-1a")
    try:
        rented = machines.acquire("j-t1", "j", deployment, [])
    finally:
        ec2.fault("no-capacity", f"{TYPE}/us-east-1a", "off")
    assert [machine.zone == "us-east-1a" for machine in rented] == [True, False]
    monkeypatch.setattr(machines, "find", lambda task_id: [])
    again = machines.acquire("j-t1", "j", deployment, [])
    assert [machine.id for machine in again] == [machine.id for machine in rented]


def test_the_zone_of_the_machines_at_hand_is_asked_first(ec2: EmulatedEc2, tmp_path: Path) -> None:
    deployment = pair(tmp_path)
    ec2.fault("no-capacity", "us-east-1a")
    try:
        before = machines_of(tmp_path, "j-t1").acquire("j-t1", "j", deployment, [])
    finally:
        ec2.fault("no-capacity", "us-east-1a", "off")
    assert before[0].zone != "us-east-1a"
    after = machines_of(tmp_path, "j-t2").acquire("j-t2", "j", deployment, before[:1])
    assert {machine.zone for machine in after} == {before[0].zone}


def test_a_launch_that_is_throttled_has_rented_nothing_and_is_not_paid_from_then_on(
    ec2: EmulatedEc2, tmp_path: Path
) -> None:
    deployment, machines = pair(tmp_path), machines_of(tmp_path, "j-t1")
    ec2.fault("throttle", "RunInstances")
    try:
        with pytest.raises(BusyError):
            machines.acquire("j-t1", "j", deployment, [])
    finally:
        ec2.fault("throttle", "RunInstances", "off")
    assert not machines.may_have_rented
    lifted_at = time.time()
    rented = machines.acquire("j-t1", "j", deployment, [])
    assert all(machine.billed_from >= lifted_at - 0.01 for machine in rented)


def test_what_no_zone_has_is_no_capacity(ec2: EmulatedEc2, tmp_path: Path) -> None:
    deployment = pair(tmp_path)
    ec2.fault("no-capacity", TYPE)
    try:
        with pytest.raises(NoCapacityError, match="no room"):
            machines_of(tmp_path, "j-t1").acquire("j-t1", "j", deployment, [])
    finally:
        ec2.fault("no-capacity", TYPE, "off")
    assert not machines_of(tmp_path, "j-t2").may_have_rented
