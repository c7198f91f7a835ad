"""What Kubernetes is asked for: a headless Service and an indexed Job with one pod on each node. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from mlcd.clouds.kubernetes.pools import Pool

MANAGED = {"app.kubernetes.io/managed-by": "mlcd"}
TASK, JOB, WHAT = "mlcd.io/task", "mlcd.io/job", "mlcd.io/what"  # annotations: labels could not hold every id
NAME = "mlcd.io/name"  # label
_HOSTNAME = "kubernetes.io/hostname"
_FORGET_SECONDS = 3600  # an ended Job is kept for so long by Kubernetes itself

# Holds the node until the lease is over: base/lease says until when, or so many seconds from the start.
_HOLDER = """
base="$MLCD_FOLDER/$MLCD_POD"; mkdir -p "$base"; until=$(( $(date +%s) + {lease_seconds} ))
while [ "$(date +%s)" -lt "$until" ]; do
  sleep 2; [ -s "$base/lease" ] && until=$(cut -d. -f1 "$base/lease")
done
"""


@dataclass(frozen=True)
class Wanted:
    """All that the manifests are made of."""

    task_id: str
    job_id: str
    what: str
    nodes: int
    pool: Pool
    image: str
    folder: str  # where the pods keep our files
    lease_seconds: float


def name_of(task_id: str) -> str:
    """A name that Kubernetes accepts, and no other task has."""
    slug = re.sub(r"[^a-z0-9]+", "-", task_id.lower()).strip("-")[:30].strip("-")
    return f"mlcd-{slug or 'task'}-{sha256(task_id.encode()).hexdigest()[:8]}"


def make_manifests(wanted: Wanted) -> dict[str, Any]:
    """The list of both."""
    return {"apiVersion": "v1", "kind": "List", "items": [service(wanted), indexed_job(wanted)]}


def service(wanted: Wanted) -> dict[str, Any]:
    """Gives each pod a name in the cluster's DNS; it has no address of its own."""
    name = name_of(wanted.task_id)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(wanted),
        "spec": {"clusterIP": "None", "selector": {NAME: name}, "publishNotReadyAddresses": True},
    }


def indexed_job(wanted: Wanted) -> dict[str, Any]:
    """One pod for each node; one that fails is not started again: the training goes on elsewhere."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(wanted),
        "spec": {
            "completionMode": "Indexed",
            "completions": wanted.nodes,
            "parallelism": wanted.nodes,
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": _FORGET_SECONDS,
            "template": {"metadata": _metadata(wanted, named=False), "spec": _pod(wanted)},
        },
    }


def _metadata(wanted: Wanted, named: bool = True) -> dict[str, Any]:
    name = name_of(wanted.task_id)
    metadata = {
        "labels": {**MANAGED, NAME: name},
        "annotations": {TASK: wanted.task_id, JOB: wanted.job_id, WHAT: wanted.what},
    }
    return {"name": name, **metadata} if named else metadata


def _pod(wanted: Wanted) -> dict[str, Any]:
    label, pool = wanted.pool.label
    return {
        "restartPolicy": "Never",
        "subdomain": name_of(wanted.task_id),
        "terminationGracePeriodSeconds": 5,
        "nodeSelector": {label: pool},
        "affinity": {"podAntiAffinity": _apart(wanted)},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [_container(wanted)],
        "volumes": [{"name": "mlcd", "emptyDir": {}}, {"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }


def _apart(wanted: Wanted) -> dict[str, Any]:
    """No two pods of ours on one node."""
    term = {"labelSelector": {"matchLabels": MANAGED}, "topologyKey": _HOSTNAME}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _container(wanted: Wanted) -> dict[str, Any]:
    pod = {"name": "MLCD_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    requests = wanted.pool.requests
    limits = {key: value for key, value in requests.items() if key not in ("cpu", "memory")}
    return {
        "name": "mlcd",
        "image": wanted.image,
        "command": ["bash", "-c", _HOLDER.format(lease_seconds=int(wanted.lease_seconds))],
        "env": [pod, {"name": "MLCD_FOLDER", "value": wanted.folder}],
        "resources": {"requests": requests, **({"limits": limits} if limits else {})},
        "volumeMounts": [
            {"name": "mlcd", "mountPath": wanted.folder},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108  # data loaders want more than Docker's 64 MiB
        ],
    }
