"""Renting nodes of a cluster: what is found, what is refused, and how soon."""

from __future__ import annotations

import json
import os
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from clouds.kubernetes.conftest import Cluster, documented_rights, node
from mlcd.clouds.kubernetes import open_cloud, retry_limit
from mlcd.clouds.kubernetes.creations import GRACE_SECONDS
from mlcd.clouds.kubernetes.machines import LOOK_SECONDS, KubernetesMachines
from mlcd.clouds.kubernetes.manifests import MANAGED
from mlcd.clouds.kubernetes.reach import PodReach
from mlcd.clouds.remote.base import BusyError, Machine, RefusedError, UnreachableError
from mlcd.core.machines import Deployment, Offer
from mlcd.errors import CloudError, MlcdError, NoCapacityError, UserError
from mlcd.settings import Settings

pytestmark = pytest.mark.slow

TAINT = {"key": "dedicated", "value": "training", "effect": "NoSchedule"}


class Renting:
    """The machines of one task, waited for as its runner does."""

    def __init__(self, cluster: Cluster, **settings: Any) -> None:
        self.settings = replace(cluster.settings, **settings)
        self.machines = self.open()
        self.offer = next(iter(self.cloud.offers()))

    @property
    def cloud(self) -> Any:
        return open_cloud(replace(Settings(home=Path("/nowhere")), clouds=(self.settings,)), {})

    def open(self) -> KubernetesMachines:
        """As another process does."""
        return KubernetesMachines({**asdict(self.settings), "grace_seconds": 1.0})

    def ask(self, nodes: int = 1) -> list[Machine]:
        return list(self.machines.acquire("task-1", "job-1", Deployment(self.offer, nodes), []))

    def start(self, nodes: int = 1) -> list[Machine]:
        """All of them, running."""
        return self.wait(self.ask(nodes), lambda machines: all(machine.host for machine in machines))

    def wait(
        self, machines: Sequence[Machine], until: Callable[[Sequence[Machine]], bool] = lambda _: False
    ) -> list[Machine]:
        """Look again and again, until it is so or one will never start."""
        give_up_at = time.monotonic() + 60
        while not until(machines):
            assert time.monotonic() < give_up_at, machines
            machines = self.machines.locate(machines)
            time.sleep(LOOK_SECONDS / 10)
        return list(machines)

    def refusal(self, nodes: int = 1) -> MlcdError:
        """The error that ends the waiting, long before `wait_seconds` are over."""
        with pytest.raises(MlcdError) as caught:
            self.wait(self.ask(nodes))
        return caught.value


@pytest.fixture
def renting(cluster: Cluster) -> Renting:
    return Renting(cluster, wait_seconds=3600.0)


def offer_of(cluster: Cluster) -> Offer:
    return Renting(cluster).offer


def test_machines_are_known_at_once_and_have_hosts_once_their_pods_run(renting: Renting) -> None:
    asked = renting.ask(2)
    assert [machine.billed_from for machine in asked] == [0.0, 0.0]
    started = renting.wait(asked, lambda machines: all(machine.host for machine in machines))
    assert len({machine.details["pod"] for machine in started}) == 2
    assert all(abs(machine.billed_from - time.time()) < 60 for machine in started)
    assert [machine.id for machine in renting.open().find("task-1")] == [machine.id for machine in asked]


def test_no_service_is_made(renting: Renting, cluster: Cluster) -> None:
    renting.start()
    assert cluster.objects("services") == []
    assert len(cluster.objects("jobs")) == 1


def test_asking_again_after_the_pool_changed_finds_the_job(renting: Renting, cluster: Cluster) -> None:
    first = renting.start()
    cluster.add(node("n1", cpu="64"), node("n2", cpu="64"))  # another kind of node: other requests
    again = renting.open().acquire("task-1", "job-1", Deployment(renting.offer, 1), [])
    assert [machine.id for machine in again] == [machine.id for machine in first]
    assert len(cluster.objects("jobs")) == 1


def test_a_template_that_changed_would_have_been_refused(renting: Renting, cluster: Cluster) -> None:
    """What the stand-in does with an `apply`, as the real API server does."""
    renting.start()
    cluster.configure(rights=["*"])
    job = cluster.objects("jobs")[0]
    job["spec"]["template"]["spec"]["nodeSelector"] = {}
    with pytest.raises(UserError, match="field is immutable"):
        renting.machines._kubectl.must("change it", "apply", "--filename", "-", stdin=json.dumps(job).encode())


def test_an_image_that_is_not_there_is_told_within_seconds(renting: Renting, cluster: Cluster) -> None:
    cluster.configure(images={"python:3.11": "missing"})
    error = renting.refusal()
    assert isinstance(error, UserError)
    assert "ErrImagePull" in error.message
    assert "kubernetes.image" in error.hint


def test_an_image_without_bash_is_told_within_seconds(renting: Renting, cluster: Cluster) -> None:
    cluster.configure(images={"python:3.11": "no bash"})
    error = renting.refusal()
    assert isinstance(error, UserError)
    assert '"bash": executable file not found' in error.message


def test_a_quota_is_told_within_seconds(renting: Renting, cluster: Cluster) -> None:
    cluster.configure(max_pods=1)
    error = renting.refusal(nodes=2)
    assert isinstance(error, NoCapacityError)
    assert "exceeded quota" in error.message


def test_a_quota_that_pods_of_an_earlier_task_fill_is_waited_for(renting: Renting, cluster: Cluster) -> None:
    cluster.configure(max_pods=1)
    going = going_pod(cluster)
    machines, until = renting.ask(), time.monotonic() + 3 * GRACE_SECONDS
    machines = renting.wait(machines, lambda _: time.monotonic() > until)
    assert not machines[0].host
    assert "exceeded quota" in cluster.objects("events")[0]["message"]
    going.unlink()
    assert renting.wait(machines, lambda machines: bool(machines[0].host))


def going_pod(cluster: Cluster) -> Path:
    """A pod of another task of ours that is being deleted, until its file is removed."""
    file = cluster.root / "pods" / "going.json"
    file.parent.mkdir(exist_ok=True)
    metadata = {"name": "going", "labels": {**MANAGED, "mlcd.io/name": "other"}, "deletionTimestamp": "now"}
    status = {"phase": "Running", "conditions": []}
    pod = {"kind": "Pod", "metadata": metadata, "spec": {}, "status": status, "kubelet": 0}
    file.write_text(json.dumps(pod))
    return file


def test_events_are_asked_for_no_more_often_than_the_pods_are_looked_at(renting: Renting, cluster: Cluster) -> None:
    cluster.configure(max_pods=1)
    going = going_pod(cluster)
    machines, began = renting.ask(), time.monotonic()
    renting.wait(machines, lambda _: time.monotonic() - began > 3 * LOOK_SECONDS)
    for what in ("events", "pods"):
        asked = sum(f" get {what} " in call for call in cluster.calls)
        assert 1 <= asked <= 1 + (time.monotonic() - began) / LOOK_SECONDS, what
    going.unlink()


CREDENTIALS = "Unable to connect to the server: getting credentials: exec: executable aws failed with exit code 255"


def test_credentials_that_cannot_be_had_for_a_moment_are_asked_for_again(renting: Renting, cluster: Cluster) -> None:
    cluster.configure(broken=CREDENTIALS)
    with pytest.raises(BusyError, match="does not accept the credentials"):
        renting.ask()
    cluster.configure(broken="")
    machines = renting.ask()
    cluster.configure(broken=CREDENTIALS)
    time.sleep(LOOK_SECONDS)
    assert renting.machines.locate(machines) == machines
    cluster.configure(broken="")
    assert renting.wait(machines, lambda machines: bool(machines[0].host))


def test_credentials_that_cannot_be_had_for_long_are_the_users(
    renting: Renting, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = renting.ask()
    cluster.configure(broken=CREDENTIALS)
    monkeypatch.setattr(retry_limit, "SECONDS", 2.0)
    with pytest.raises(UserError, match="does not accept the credentials"):
        renting.wait(machines)


def test_without_the_right_to_read_events_a_quota_is_told_in_the_end(cluster: Cluster) -> None:
    cluster.configure(max_pods=1, rights=documented_rights(optional=False))
    error = Renting(cluster, wait_seconds=3.0).refusal(nodes=2)
    assert isinstance(error, NoCapacityError)
    assert "started 1 of 2 pods" in error.message


def test_pods_that_no_node_has_room_for_are_waited_for_and_then_told(cluster: Cluster) -> None:
    renting = Renting(cluster, wait_seconds=3.0)
    cluster.add(*(node(name, spec={"unschedulable": True}) for name in ("n1",)))
    error = renting.refusal(nodes=2)
    assert isinstance(error, NoCapacityError)
    assert "started 1 of 2 pods within 3 seconds: Unschedulable: 0/2 nodes are available" in error.message


def test_what_part_of_the_pods_cost_is_known_before_they_are_given_up(cluster: Cluster) -> None:
    renting = Renting(cluster, wait_seconds=3600.0)
    cluster.configure(max_pods=1)
    machines = renting.ask(2)
    with suppress(NoCapacityError):
        for _ in range(600):
            machines = list(renting.machines.locate(machines))
            time.sleep(LOOK_SECONDS / 10)
    assert [bool(machine.billed_from) for machine in machines] == [True, False]


@pytest.mark.parametrize(
    ("right", "words"),
    [("create jobs", 'cannot create resource "jobs"'), ("list nodes", 'cannot list resource "nodes"')],
)
def test_a_right_that_is_missing_is_named(renting: Renting, cluster: Cluster, right: str, words: str) -> None:
    cluster.forbid(right)
    with pytest.raises(UserError, match=words) as caught:
        renting.ask()
    assert "rights" in caught.value.hint


def test_a_namespace_that_is_not_there_is_named(cluster: Cluster) -> None:
    with pytest.raises(UserError, match="no namespace 'team'"):
        Renting(cluster, namespace="team").ask()


def test_tainted_nodes_are_for_sale_to_those_who_tolerate_them(cluster: Cluster) -> None:
    cluster.add(node("n2", spec={"taints": [TAINT]}))
    assert offer_of(cluster).max_nodes == 1
    renting = Renting(cluster, tolerations="dedicated=training:NoSchedule")
    assert renting.offer.max_nodes == 2
    assert len(renting.start(2)) == 2


def test_giving_back_twice_is_quiet_and_leaves_nothing(renting: Renting, cluster: Cluster) -> None:
    started = renting.start(2)
    renting.machines.release(started)
    renting.machines.release(started)
    assert list(renting.machines.find("task-1")) == []
    give_up_at = time.monotonic() + 60
    while renting.machines._kubectl.items("list pods", "pods"):
        assert time.monotonic() < give_up_at
        time.sleep(0.1)
    assert cluster.objects("jobs") == []


def test_a_pod_that_ended_by_its_lease_is_gone_since_it_ended(cluster: Cluster) -> None:
    renting = Renting(cluster, lease_seconds=600.0)
    (machine,) = renting.start()
    reach = renting.machines.reach(machine)
    reach.write(f"{reach.base}/lease", b"1\n")
    give_up_at = time.monotonic() + 60
    while renting.machines.find("task-1"):
        assert time.monotonic() < give_up_at
        time.sleep(0.2)
    ended_at = renting.machines.ended_at(machine)
    assert ended_at is not None
    assert machine.billed_from <= ended_at <= time.time()
    assert "its lease ran out" in renting.machines.why_gone(machine)
    renting.machines.release([machine])
    assert renting.machines.ended_at(machine) == ended_at  # though the cluster has forgotten it


def test_all_pods_are_looked_at_by_one_question(renting: Renting, cluster: Cluster) -> None:
    machines = renting.start(2)
    before, began = len(cluster.calls), time.monotonic()
    for _ in range(200):
        renting.machines.locate(machines)
        renting.machines.find("task-1")
    assert len(cluster.calls) - before <= 1 + (time.monotonic() - began) / LOOK_SECONDS


# ---------------------------------------------------------------------------------------------- the way into a pod


@pytest.fixture
def reach(renting: Renting) -> PodReach:
    (machine,) = renting.start()
    way = renting.machines.reach(machine)
    assert isinstance(way, PodReach)
    return way


def test_files_are_read_and_written_through_one_session(reach: PodReach, cluster: Cluster) -> None:
    before = len(cluster.calls)
    assert reach.read(f"{reach.base}/none") is None
    for number in range(20):
        reach.write(f"{reach.base}/file", bytes(range(256)) * number)
        assert reach.read(f"{reach.base}/file", offset=1, most=300) == (bytes(range(256)) * number)[1:301]
    assert len(cluster.calls) - before == 1
    reach.close()
    assert reach.read(f"{reach.base}/file", most=3) == b"\0\1\2"


def test_large_reads_arrive_whole(reach: PodReach) -> None:
    reach.run(f"head -c 3000000 /dev/zero > {reach.base}/large")
    data = reach.read(f"{reach.base}/large")
    assert data == bytes(3_000_000)


def test_a_session_that_broke_is_opened_again(reach: PodReach, cluster: Cluster) -> None:
    reach.write(f"{reach.base}/file", b"here")
    assert reach._session._process is not None
    reach._session._process.kill()
    assert reach.read(f"{reach.base}/file") == b"here"


def test_a_refused_exec_is_told_at_once_and_not_taken_for_no_answer(reach: PodReach, cluster: Cluster) -> None:
    cluster.forbid("create pods/exec")
    for act in (lambda: reach.run("true"), lambda: reach.read("/etc/hostname")):
        with pytest.raises(RefusedError, match='cannot create resource "pods/exec"'):
            act()


def test_a_pod_that_is_gone_does_not_answer(renting: Renting, reach: PodReach) -> None:
    renting.machines.release(renting.ask())
    give_up_at = time.monotonic() + 60
    while True:
        try:
            reach.run("true")
        except UnreachableError:
            break
        assert time.monotonic() < give_up_at


def test_commands_that_fail_are_no_failure_of_kubectl(reach: PodReach) -> None:
    assert reach.run("echo 'error: mine' >&2; exit 1").code == 1
    assert reach.run("cat", stdin=b"words").output == "words"


def test_archives_are_streamed(reach: PodReach, tmp_path: Path) -> None:
    archive, big = tmp_path / "big.tgz", tmp_path / "big"
    big.write_bytes(os.urandom(30 << 20))
    subprocess.run(["tar", "-czf", archive, "-C", tmp_path, "big"], check=True)
    tracemalloc.start()
    reach.put(archive, f"{reach.base}/sent")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
    assert reach.run(f"stat -c %s {reach.base}/sent/big").output.strip() == str(30 << 20)
    reach.fetch(f"{reach.base}/sent/big", tmp_path / "back", 30 << 20)
    assert (tmp_path / "back").read_bytes() == big.read_bytes()
    with pytest.raises(CloudError, match="No such file"):
        reach.fetch(f"{reach.base}/sent/none", tmp_path / "none", 1)


def test_an_image_without_python_is_told(renting: Renting) -> None:
    (machine,) = renting.start()
    renting.machines.python = "python9"
    with pytest.raises(RefusedError, match="has no 'python9'") as caught:
        renting.machines.reach(machine).read("/etc/hostname")
    assert "kubernetes.python" in caught.value.hint
