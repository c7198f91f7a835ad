"""Rents nodes of a Kubernetes cluster for one task: an indexed Job whose pods hold them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from mlcd.clouds.kubernetes.kubectl import Kubectl
from mlcd.clouds.kubernetes.manifests import NAME, Wanted, make_manifests, name_of
from mlcd.clouds.kubernetes.pools import Pool, read_pools
from mlcd.clouds.kubernetes.reach import PodReach
from mlcd.clouds.remote.base import Machine, Notes, Reach
from mlcd.core.machines import Deployment
from mlcd.errors import NoCapacityError

LOOK_SECONDS = 1.0


class KubernetesMachines:
    """See mlcd.clouds.remote.base.Machines for what it promises."""

    keep_seconds = 0.0
    control = ""
    notice_url = ""
    power_off = ""  # the pod ends by itself when its lease is over

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._kubectl = Kubectl.of(options)
        self.python = str(options["python"])
        self.lease_seconds = float(options["lease_seconds"])
        self.lost_seconds = float(options["lost_seconds"])
        self.may_have_rented = False

    def acquire(
        self, task_id: str, job_id: str, deployment: Deployment, had: Sequence[Machine]
    ) -> Sequence[Machine]:
        """Ask for the Job, which asked for twice is one, and wait until all its pods run."""
        wanted = self._wanted(task_id, job_id, deployment)
        manifests = json.dumps(make_manifests(wanted)).encode()
        self._kubectl.must("apply", "--filename", "-", stdin=manifests)
        self.may_have_rented = True
        give_up_at = time.monotonic() + float(self._options["wait_seconds"])
        while len(running := [pod for pod in self._pods(task_id) if _runs(pod)]) < deployment.nodes:
            if time.monotonic() > give_up_at:
                why = _why_not(self._pods(task_id))
                self._delete(task_id)
                raise NoCapacityError(f"Kubernetes did not start {deployment} in time: {why}.")
            time.sleep(LOOK_SECONDS)
        return [self._machine(pod) for pod in sorted(running, key=_index)]

    def locate(self, machines: Sequence[Machine]) -> Sequence[Machine]:
        """A pod that runs has an address."""
        return machines

    def find(self, task_id: str) -> Sequence[Machine]:
        """Its pods that run; where there is none but the Job stands, that one."""
        pods = self._pods(task_id)
        living = [self._machine(pod) for pod in pods if _runs(pod)]
        if living or not self._kubectl.items("jobs", "--selector", f"{NAME}={name_of(task_id)}"):
            return living
        return [Machine(task_id, "", "", 0.0, details={"task": task_id})]

    def why_gone(self, machine: Machine) -> str:
        """What Kubernetes says of the pod's end."""
        pods = [pod for pod in self._pods(machine.details["task"]) if pod["metadata"]["name"] == machine.id]
        return str(pods[0]["status"].get("reason", "")) if pods else ""

    def adopt(self, machines: Sequence[Machine], task_id: str) -> None:
        """Nothing is kept for another task."""

    def release(self, machines: Sequence[Machine]) -> None:
        """Delete the Jobs; their pods go with them."""
        for task_id in {machine.details["task"] for machine in machines}:
            self._delete(task_id)

    def renewed(self, machines: Sequence[Machine], until: float) -> None:
        """The pods read it from their own disk."""

    def reach(self, machine: Machine) -> Reach:
        """By kubectl exec."""
        return PodReach(self._kubectl, machine.id, f"{self._options['folder']}/{machine.id}")

    def _wanted(self, task_id: str, job_id: str, deployment: Deployment) -> Wanted:
        return Wanted(
            task_id,
            job_id,
            str(deployment),
            deployment.nodes,
            self._pool(deployment.offer.instance.name),
            str(self._options["image"]),
            str(self._options["folder"]),
            self.lease_seconds,
        )

    def _pool(self, name: str) -> Pool:
        pools = read_pools(self._kubectl.items("nodes"), str(self._options["pool_label"]))
        for pool in pools:
            if pool.label[1] == name:
                return pool
        raise NoCapacityError(f"Kubernetes has no nodes of the pool '{name}' now.")

    def _pods(self, task_id: str) -> Sequence[dict[str, Any]]:
        return self._kubectl.items("pods", "--selector", f"{NAME}={name_of(task_id)}")

    def _delete(self, task_id: str) -> None:
        self._kubectl.must(
            "delete",
            "job,service",
            name_of(task_id),
            "--ignore-not-found",
            "--wait=false",
            "--cascade=background",
        )

    def _machine(self, pod: dict[str, Any]) -> Machine:
        name, status, task = (
            pod["metadata"]["name"],
            pod["status"],
            pod["metadata"]["annotations"]["mlcd.io/task"],
        )
        since = datetime.fromisoformat(status["startTime"]).timestamp()
        return Machine(name, name, status["podIP"], since, details={"task": task})


def open_machines(home: Path, options: Mapping[str, Any], notes: Notes) -> KubernetesMachines:
    """For the courier."""
    return KubernetesMachines(options)


def _runs(pod: dict[str, Any]) -> bool:
    status = pod["status"]
    going = "deletionTimestamp" in pod["metadata"]
    return status.get("phase") == "Running" and bool(status.get("podIP")) and not going


def _index(pod: dict[str, Any]) -> int:
    return int(pod["metadata"]["annotations"].get("batch.kubernetes.io/job-completion-index", "0"))


def _why_not(pods: Sequence[dict[str, Any]]) -> str:
    """What the scheduler or the container's start has to say."""
    for pod in pods:
        for condition in pod["status"].get("conditions", []):
            if condition.get("status") == "False" and condition.get("message"):
                return str(condition["message"])
    return "no pod says why"
