"""Rents nodes of a Ray cluster for one task: a placement group, and a host in each of its bundles."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlcd.clouds.ray import host
from mlcd.clouds.ray.kinds import bundle_of
from mlcd.clouds.ray.placement_groups import Group, actor_name, group_of, placement_group
from mlcd.clouds.ray.reach import RayReach
from mlcd.clouds.ray.session import NAMESPACE, connect
from mlcd.clouds.remote.base import Machine, Notes, PlainMachines, Reach
from mlcd.core.machines import Deployment
from mlcd.errors import CloudError, NoCapacityError

HOST_SECONDS = 60.0  # for Ray to start an actor
LEAVE_SECONDS = 8.0
CALLS_AT_ONCE = 8


class RayMachines(PlainMachines):
    """See mlcd.clouds.remote.base.Machines for what it promises. A host gives its node back when the lease runs out."""

    def __init__(self, options: Mapping[str, Any], notes: Notes) -> None:
        self._address = str(options["address"])
        self._wait_seconds = float(options["wait_seconds"])
        self.lease_seconds = float(options["lease_seconds"])
        self.lost_seconds = float(options["lost_seconds"])
        self.python = "python3"
        self._notes = notes
        self._known: dict[str, Machine] = {}

    def acquire(self, task_id: str, job_id: str, deployment: Deployment, had: Sequence[Machine]) -> Sequence[Machine]:
        """The task's placement group with a host in each bundle, found or made."""
        ray = connect(self._address)
        group = group_of(ray, task_id) or self._reserve(ray, task_id, job_id, deployment)
        try:
            self._wait(ray, group, deployment)
            hosts = [self._host(ray, group, deployment, index) for index in range(deployment.nodes)]
            facts = ray.get([one.facts.remote() for one in hosts], timeout=HOST_SECONDS)
        except (NoCapacityError, ray.exceptions.RayError) as error:
            _remove(ray, group)
            if isinstance(error, NoCapacityError):
                raise
            raise CloudError(f"Ray did not start mlcd's actors: {error}") from error
        return [self._machine(actor_name(task_id, rank), each) for rank, each in enumerate(facts)]

    def find(self, task_id: str) -> Sequence[Machine]:
        """Those whose host lives; where none does but the reservation stands, that one."""
        ray = self._connected()
        if ray is None or (group := group_of(ray, task_id)) is None:
            return []
        living = {row["name"] for row in ray.util.list_named_actors(all_namespaces=True)}
        names = [name for index in range(group.nodes) if (name := actor_name(task_id, index)) in living]
        return [self._known.get(name) or _unknown(name, group) for name in names or [task_id]]

    def release(self, machines: Sequence[Machine]) -> None:
        """End what runs on them and give the placement group back."""
        ray = connect(self._address)
        hosts = [found for machine in machines if (found := _actor(ray, machine.id)) is not None]
        leaving = [one.leave.remote() for one in hosts]
        if leaving:
            ray.wait(leaving, num_returns=len(leaving), timeout=LEAVE_SECONDS)
        for task_id in {machine.id.rpartition("/")[0] or machine.id for machine in machines}:
            group = group_of(ray, task_id)
            if group is not None:
                _remove(ray, group)

    def reach(self, machine: Machine) -> Reach:
        """Through its host."""
        self.python = machine.details.get("python", self.python)
        self._known[machine.id] = machine
        ray = connect(self._address)
        return RayReach(ray, lambda: _living(ray, machine.id), machine.details["base"], machine.id)

    def _reserve(self, ray: Any, task_id: str, job_id: str, deployment: Deployment) -> Group:
        group = Group(task_id, job_id, time.time(), str(deployment), deployment.nodes)
        rows, ranks = ray.nodes(), range(deployment.nodes)
        bundles = [bundle_of(rows, deployment.offer_of(rank).instance) for rank in ranks]
        labelled = any(bundle.labels for bundle in bundles)
        labels = {"bundle_label_selector": [bundle.labels for bundle in bundles]} if labelled else {}
        ray.util.placement_group(
            [bundle.resources for bundle in bundles],
            strategy="STRICT_SPREAD",
            name=group.name,
            lifetime="detached",
            **labels,
        )
        return group

    def _wait(self, ray: Any, group: Group, deployment: Deployment) -> None:
        if not placement_group(ray, group).wait(self._wait_seconds):
            raise NoCapacityError(
                f"The Ray cluster has not {deployment} free within {self._wait_seconds:g} seconds.",
                "Wait for others to end, ask for fewer nodes, or raise ray.wait_seconds.",
            )

    def _host(self, ray: Any, group: Group, deployment: Deployment, index: int) -> Any:
        """The host of a bundle, found or made; it holds what the bundle reserved."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        ray.cloudpickle.register_pickle_by_value(host)  # the cluster need not have mlcd
        instance = deployment.offer_of(index).instance
        return (
            ray.remote(host.Host)
            .options(
                name=actor_name(group.task_id, index),
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=instance.vcpus,
                num_gpus=instance.gpus,
                max_concurrency=CALLS_AT_ONCE,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    placement_group(ray, group), placement_group_bundle_index=index
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
            group_of(ray, "")  # a question, to see whether it answers
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
    """For the runner."""
    return RayMachines(options, notes)


def _living(ray: Any, name: str) -> Any:
    return ray.get_actor(name, namespace=NAMESPACE)


def _actor(ray: Any, name: str) -> Any:
    """The host of that name; None: it is gone."""
    with suppress(ValueError):
        return _living(ray, name)
    return None


def _remove(ray: Any, group: Group) -> None:
    with suppress(ValueError):  # it is gone
        ray.util.remove_placement_group(placement_group(ray, group))


def _unknown(name: str, group: Group) -> Machine:
    """One that this process did not rent: enough to tell it, and to give it back."""
    return Machine(name, "", "", group.since)
