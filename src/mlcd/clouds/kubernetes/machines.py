"""Rents nodes of a Kubernetes cluster for one task: an indexed Job whose pods hold them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlcd.clouds.kubernetes.creations import CreationMessages, Creations
from mlcd.clouds.kubernetes.errors import CredentialsError
from mlcd.clouds.kubernetes.kubectl import Kubectl
from mlcd.clouds.kubernetes.manifests import NAME, PodRequest, indexed_job, name_of
from mlcd.clouds.kubernetes.pods import Pod, hopeless, read_pod, why_not_started, why_over
from mlcd.clouds.kubernetes.pools import Pool, read_pools
from mlcd.clouds.kubernetes.reach import PodReach
from mlcd.clouds.kubernetes.retry_limit import RetryLimit
from mlcd.clouds.kubernetes.site import read_site
from mlcd.clouds.kubernetes.tolerations import read_tolerations
from mlcd.clouds.remote.base import BusyError, Machine, Notes, Reach
from mlcd.core.machines import Deployment
from mlcd.errors import CloudError, NoCapacityError

LOOK_SECONDS = 1.0  # all questions within so long have the same answer
_LEASE_MARGIN_SECONDS = 60.0
_ENDED = ("Complete", "Failed")


@dataclass(frozen=True)
class JobAndPods:
    """The Job of a task and its pods, as they stood at one moment."""

    job: Mapping[str, Any] | None
    pods: Mapping[int, Pod]
    at: float  # by the monotonic clock

    @property
    def nodes(self) -> int:
        """How many pods there are to be."""
        return int(self.job["spec"]["completions"]) if self.job is not None else 0


class KubernetesMachines:
    """See mlcd.clouds.remote.base.Machines for what it promises.

    A machine is a place in the Job: it is known as soon as the Job is, and has a host once its pod runs.
    """

    keep_seconds = 0.0
    control = ""
    notice_url = ""
    power_off = ""  # the pod ends by itself when its lease is over

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._kubectl = Kubectl.of(options)
        self._tolerations = read_tolerations(str(options["tolerations"]))
        self._site = read_site(options)
        self._creations = Creations(self._kubectl)
        self._credentials = RetryLimit()
        self._looks: dict[str, JobAndPods] = {}
        self._told: tuple[JobAndPods, CreationMessages] | None = None  # of pods that could not be made, with that look
        self._ended: dict[str, Pod] = {}  # by name, as they were last seen
        self.python = str(options["python"])
        self.lease_seconds = float(options["lease_seconds"])
        self.lost_seconds = float(options["lost_seconds"])
        self.may_have_rented = False

    def acquire(self, task_id: str, job_id: str, deployment: Deployment, had: Sequence[Machine]) -> Sequence[Machine]:
        """The task's Job, found or made; `locate` tells of its pods, and what keeps them from starting."""
        with self._patiently():
            if self._look(task_id).job is None:
                wanted = self._wanted(task_id, job_id, deployment)
                self.may_have_rented = True
                self._kubectl.create("create Jobs", indexed_job(wanted))
                self._looks.clear()
        self.may_have_rented = True
        details = {"task": task_id, "asked_at": f"{time.time():.3f}"}
        return [
            Machine(f"{name_of(task_id)}-{index}", "", "", 0.0, details=details) for index in range(deployment.nodes)
        ]

    def locate(self, machines: Sequence[Machine]) -> Sequence[Machine]:
        """The same machines, with the pods that hold nodes by now; raises where some will never start.

        What is new is told first, so that it is on the bill before anything is given up.
        """
        task_id, late = machines[0].details["task"], self._waited(machines[0])
        try:
            with self._patiently():
                look = self._look(task_id)
        except CloudError:  # the cluster is away: it is asked again
            if late:
                raise
            return machines
        located = [_located(machine, look.pods.get(index)) for index, machine in enumerate(machines)]
        if located == list(machines) and not all(machine.host for machine in machines):
            self._refuse_hopeless(task_id, look, late)
        return located

    def find(self, task_id: str) -> Sequence[Machine]:
        """The places of its Job whose pods run, or may still come to run."""
        look = self._look(task_id)
        may_come = look.job is not None and not has_ended(look.job)
        return [
            _found(task_id, index, pod)
            for index in range(look.nodes)
            if ((pod := look.pods.get(index)) is None and may_come) or (pod is not None and not pod.over)
        ]

    def why_gone(self, machine: Machine) -> str:
        """What Kubernetes says of the pod's end."""
        pod = self._pod_of(machine)
        return why_over(pod) if pod is not None else "its pod was deleted"

    def ended_at(self, machine: Machine) -> float | None:
        """When the pod's container ended; what was seen once is known after the pod is gone."""
        pod = self._pod_of(machine)
        return pod.ended_at if pod is not None else None

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
        pod = machine.details.get("pod", machine.id)
        return PodReach(self._kubectl, pod, f"{self._options['folder']}/{pod}", self.python)

    def _wanted(self, task_id: str, job_id: str, deployment: Deployment) -> PodRequest:
        wait_seconds = float(self._options["wait_seconds"])
        return PodRequest(
            task_id=task_id,
            job_id=job_id,
            what=str(deployment),
            nodes=deployment.nodes,
            pool=self._pool(deployment.offer.instance.name),
            image=str(self._options["image"]),
            folder=str(self._options["folder"]),
            # The first pods must not go while they wait for the last.
            lease_seconds=max(self.lease_seconds, wait_seconds + _LEASE_MARGIN_SECONDS),
            grace_seconds=float(self._options["grace_seconds"]),
            tolerations=self._tolerations,
            site=self._site,
        )

    def _pool(self, name: str) -> Pool:
        nodes = self._kubectl.items("list nodes", "nodes")
        for pool in read_pools(nodes, str(self._options["pool_label"]), self._tolerations, self._site):
            if pool.label[1] == name:
                return pool
        raise NoCapacityError(f"Kubernetes has no nodes of the pool '{name}' now.")

    def _look(self, task_id: str) -> JobAndPods:
        """The Job and all its pods, by one question, not asked more often than once a second."""
        known = self._looks.get(task_id)
        if known is None or time.monotonic() - known.at > LOOK_SECONDS:
            items = self._kubectl.items("list Jobs and pods", "jobs,pods", "--selector", f"{NAME}={name_of(task_id)}")
            known = self._looks[task_id] = _read_look(items)
            self._ended |= {pod.name: pod for pod in known.pods.values() if pod.over}
        return known

    @contextmanager
    def _patiently(self) -> Iterator[None]:
        """Credentials that cannot be had are asked for again, for a while."""
        try:
            yield
        except CredentialsError as error:
            if self._credentials.ends():
                raise
            raise BusyError(error.message, error.hint) from error
        self._credentials.renew()

    def _pod_of(self, machine: Machine) -> Pod | None:
        name = machine.details.get("pod", "")
        pods = {pod.name: pod for pod in self._look(machine.details["task"]).pods.values()}
        return pods.get(name) or self._ended.get(name)

    def _waited(self, machine: Machine) -> bool:
        """Whether the pods have had their time to start."""
        asked_at = float(machine.details["asked_at"])
        return time.time() - asked_at > float(self._options["wait_seconds"])

    def _refuse_hopeless(self, task_id: str, look: JobAndPods, late: bool) -> None:
        pods = list(look.pods.values())
        told = self._failed_creations(task_id, look) if len(pods) < look.nodes else CreationMessages()
        error = hopeless(pods, told.lasting)
        if error is not None:
            raise error
        if late:
            seconds, running = self._options["wait_seconds"], sum(pod.runs for pod in pods)
            raise NoCapacityError(
                f"Kubernetes started {running} of {look.nodes} pods within {seconds:g} seconds: "
                f"{why_not_started(pods, told.messages)}.",
                "Ask for fewer nodes, or raise kubernetes.wait_seconds.",
            )

    def _failed_creations(self, task_id: str, look: JobAndPods) -> CreationMessages:
        """What the Job's events say of pods that could not be made, asked for once with each look."""
        if self._told is None or self._told[0] is not look:
            self._told = look, self._creations.tell(name_of(task_id))
        return self._told[1]

    def _delete(self, task_id: str) -> None:
        words = (name_of(task_id), "--ignore-not-found", "--wait=false", "--cascade=background")
        self._kubectl.must("delete Jobs", "delete", "job", *words)
        self._looks.clear()


def open_machines(home: Path, options: Mapping[str, Any], notes: Notes) -> KubernetesMachines:
    """For the runner."""
    return KubernetesMachines(options)


def has_ended(job: Mapping[str, Any]) -> bool:
    """Whether a Job makes no pods any more."""
    conditions = job.get("status", {}).get("conditions", [])
    over = any(each["type"] in _ENDED and each["status"] == "True" for each in conditions)
    return over or "deletionTimestamp" in job["metadata"]


def _read_look(items: Sequence[Mapping[str, Any]]) -> JobAndPods:
    pods = sorted((read_pod(item) for item in items if item["kind"] == "Pod"), key=lambda pod: not pod.over)
    job = next((item for item in items if item["kind"] == "Job"), None)
    return JobAndPods(job, {pod.index: pod for pod in pods}, time.monotonic())


def _found(task_id: str, index: int, pod: Pod | None) -> Machine:
    machine = Machine(f"{name_of(task_id)}-{index}", "", "", 0.0, details={"task": task_id})
    return _located(machine, pod)


def _located(machine: Machine, pod: Pod | None) -> Machine:
    """The machine with what its pod tells; nodes cost money from the moment that a pod holds them."""
    if pod is None or pod.started_at is None:
        return machine
    host = pod.name if pod.runs else ""
    details = {**machine.details, "pod": pod.name}
    return replace(machine, host=host, address=pod.ip, billed_from=pod.started_at, details=details)
