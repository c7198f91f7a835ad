"""Rents nodes of a Ray cluster for one task: a placement group, and a host in each of its bundles."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlcd.clouds.ray import host
from mlcd.clouds.ray.books import Entry, actor_name, entry_of, group_of
from mlcd.clouds.ray.kinds import bundle_of
from mlcd.clouds.ray.reach import RayReach
from mlcd.clouds.ray.session import NAMESPACE, connect
from mlcd.clouds.remote.base import Machine, Notes, Reach
from mlcd.core.machines import Deployment
from mlcd.errors import CloudError, NoCapacityError

HOST_SECONDS = 60.0  # for Ray to start an actor
LEAVE_SECONDS = 8.0
CALLS_AT_ONCE = 8


class RayMachines:
    """See mlcd.clouds.remote.base.Machines for what it promises."""

    keep_seconds = 0.0  # a node of a cluster that is there anyway takes no time to get back
    control = ""
    notice_url = ""
    may_have_rented = False  # what is reserved is found by asking the cluster, if it is there at all
    power_off = ""  # the host gives back what it has when the lease runs out

    def __init__(self, options: Mapping[str, Any], notes: Notes) -> None:
        self._address = str(options["address"])
        self._wait_seconds = float(options["wait_seconds"])
        self.lease_seconds = float(options["lease_seconds"])
        self.lost_seconds = float(options["lost_seconds"])
        self.python = "python3"
        self._notes = notes
        self._known: dict[str, Machine] = {}

    def acquire(
        self, task_id: str, job_id: str, deployment: Deployment, had: Sequence[Machine]
    ) -> Sequence[Machine]:
        """The task's placement group with a host in each bundle, found or made."""
        ray = connect(self._address)
        entry = entry_of(ray, task_id) or self._reserve(ray, task_id, job_id, deployment)
        try:
            self._wait(ray, entry, deployment)
            hosts = [self._host(ray, entry, deployment, index) for index in range(deployment.nodes)]
            facts = ray.get([one.facts.remote() for one in hosts], timeout=HOST_SECONDS)
        except (NoCapacityError, ray.exceptions.RayError) as error:
            _remove(ray, entry)
            if isinstance(error, NoCapacityError):
                raise
            raise CloudError(f"Ray did not start mlcd's actors: {error}") from error
        return [self._machine(actor_name(task_id, rank), each) for rank, each in enumerate(facts)]

    def locate(self, machines: Sequence[Machine]) -> Sequence[Machine]:
        """A host that answers has an address."""
        return machines

    def find(self, task_id: str) -> Sequence[Machine]:
        """Those whose host lives; where none does but the reservation stands, that one."""
        ray = self._connected()
        if ray is None or (entry := entry_of(ray, task_id)) is None:
            return []
        living = {row["name"] for row in ray.util.list_named_actors(all_namespaces=True)}
        names = [name for index in range(entry.nodes) if (name := actor_name(task_id, index)) in living]
        return [self._known.get(name) or _unknown(name, entry) for name in names or [task_id]]

    def why_gone(self, machine: Machine) -> str:
        """Ray does not say of a host that is gone why."""
        return ""

    def ended_at(self, machine: Machine) -> float | None:
        """Ray does not say of a host that is gone when it went."""
        return None

    def adopt(self, machines: Sequence[Machine], task_id: str) -> None:
        """Nothing is kept for another task."""

    def release(self, machines: Sequence[Machine]) -> None:
        """End what runs on them and give the placement group back."""
        ray = connect(self._address)
        hosts = [found for machine in machines if (found := _actor(ray, machine.id)) is not None]
        leaving = [one.leave.remote() for one in hosts]
        if leaving:
            ray.wait(leaving, num_returns=len(leaving), timeout=LEAVE_SECONDS)
        for task_id in {machine.id.rpartition("/")[0] or machine.id for machine in machines}:
            entry = entry_of(ray, task_id)
            if entry is not None:
                _remove(ray, entry)

    def renewed(self, machines: Sequence[Machine], until: float) -> None:
        """The hosts read it from their own disk."""

    def reach(self, machine: Machine) -> Reach:
        """Through its host."""
        self.python = machine.details.get("python", self.python)
        self._known[machine.id] = machine
        ray = connect(self._address)
        return RayReach(ray, lambda: _living(ray, machine.id), machine.details["base"], machine.id)

    def _reserve(self, ray: Any, task_id: str, job_id: str, deployment: Deployment) -> Entry:
        entry = Entry(task_id, job_id, time.time(), str(deployment), deployment.nodes)
        bundle = bundle_of(ray.nodes(), deployment.offer.instance)
        labels = {"bundle_label_selector": [bundle.labels] * deployment.nodes} if bundle.labels else {}
        ray.util.placement_group(
            [bundle.resources] * deployment.nodes,
            strategy="STRICT_SPREAD",
            name=entry.name,
            lifetime="detached",
            **labels,
        )
        return entry

    def _wait(self, ray: Any, entry: Entry, deployment: Deployment) -> None:
        if not group_of(ray, entry).wait(self._wait_seconds):
            raise NoCapacityError(
                f"The Ray cluster has not {deployment} free within {self._wait_seconds:g} seconds.",
                "Wait for others to end, ask for fewer nodes, or raise ray.wait_seconds.",
            )

    def _host(self, ray: Any, entry: Entry, deployment: Deployment, index: int) -> Any:
        """The host of a bundle, found or made; it holds what the bundle reserved."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        ray.cloudpickle.register_pickle_by_value(host)  # the cluster need not have mlcd
        instance = deployment.offer.instance
        return (
            ray.remote(host.Host)
            .options(
                name=actor_name(entry.task_id, index),
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=instance.vcpus,
                num_gpus=instance.gpus,
                max_concurrency=CALLS_AT_ONCE,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    group_of(ray, entry), placement_group_bundle_index=index
                ),
            )
            .remote(self.lease_seconds)
        )

    def _machine(self, name: str, facts: Mapping[str, Any]) -> Machine:
        details = {"base": str(facts["base"]), "python": str(facts["python"])}
        return Machine(name, facts["address"], facts["address"], float(facts["since"]), details=details)

    def _connected(self) -> Any:
        """Ray, or None once the whole cluster has not answered for so long that all on it is lost."""
        try:
            ray = connect(self._address)
            entry_of(ray, "")  # a question, to see whether it answers
        except (CloudError, ConnectionError, TimeoutError, RuntimeError) as error:
            since = float(self._notes.read_notes().get("silent since") or time.time())
            self._notes.note("silent since", str(since))
            if time.time() - since > self.lost_seconds:
                return None
            raise CloudError(f"The Ray cluster at '{self._address}' does not answer.") from error
        if "silent since" in self._notes.read_notes():
            self._notes.note("silent since", "")
        return ray


def open_machines(home: Path, options: Mapping[str, Any], notes: Notes) -> RayMachines:
    """For the courier."""
    return RayMachines(options, notes)


def _living(ray: Any, name: str) -> Any:
    return ray.get_actor(name, namespace=NAMESPACE)


def _actor(ray: Any, name: str) -> Any:
    """The host of that name; None: it is gone."""
    with suppress(ValueError):
        return _living(ray, name)
    return None


def _remove(ray: Any, entry: Entry) -> None:
    with suppress(ValueError):  # it is gone
        ray.util.remove_placement_group(group_of(ray, entry))


def _unknown(name: str, entry: Entry) -> Machine:
    """One that this process did not rent: enough to tell it, and to give it back."""
    return Machine(name, "", "", entry.since)
