"""What Kubernetes is asked for: an indexed Job with one pod on each node. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from mlcd.clouds.kubernetes.pools import Pool
from mlcd.clouds.kubernetes.site import ANY, Site
from mlcd.clouds.kubernetes.tolerations import Toleration
from mlcd.clouds.remote.agent.limits import LEAVING, NodeEnd

MANAGED = {"app.kubernetes.io/managed-by": "mlcd"}
TASK, JOB, WHAT = "mlcd.io/task", "mlcd.io/job", "mlcd.io/what"  # annotations: labels could not hold every id
NAME = "mlcd.io/name"  # label
CONTAINER = "mlcd"
# Beyond the program's grace: for what it saved to be brought home from a pod that has to go.
HOME_SECONDS = 30.0
_HOSTNAME = "kubernetes.io/hostname"

# Holds the node until the lease is over: base/lease says until when, or so many seconds from the start. SIGTERM (a drain, an
# eviction, a deletion) is passed on: base/leaving tells the agent to end the program, which may save; what it saved is brought home
# until Kubernetes kills the pod. A pod whose program is over, or which has none, leaves at once.
_HOLDER = """
base="$MLCD_FOLDER/$MLCD_POD"; mkdir -p "$base"; until=$(( $(date +%s) + {lease_seconds} ))
idle() {{
  local state words
  for state in "$base"/tasks/*/control/state.json; do
    [ -e "$state" ] || continue
    words=$(<"$state")
    [[ $words == *'"phase": "ended"'* && $words != *'"why": "{taken}"'* ]] || return 1
  done
}}
trap 'touch "$base/{leaving}"' TERM
while [ "$(date +%s)" -lt "$until" ]; do
  if [ -e "$base/{leaving}" ] && idle; then exit 0; fi
  sleep 1 & wait $!
  [ -s "$base/lease" ] && until=$(cut -d. -f1 "$base/lease")
done
for second in $(seq {grace_seconds}); do idle && break; sleep 1; done  # the program may be saving
exit 0
"""


@dataclass(frozen=True)
class PodRequest:
    """All that the manifests are made of."""

    task_id: str
    job_id: str
    what: str
    nodes: int
    pool: Pool
    image: str
    folder: str  # where the pods keep our files
    lease_seconds: float  # of a pod that nobody has come to yet
    grace_seconds: float  # for the program to save when the pod has to go
    tolerations: tuple[Toleration, ...] = ()
    site: Site = ANY


def name_of(task_id: str) -> str:
    """A name that Kubernetes accepts, and no other task has."""
    slug = re.sub(r"[^a-z0-9]+", "-", task_id.lower()).strip("-")[:30].strip("-")
    return f"mlcd-{slug or 'task'}-{sha256(task_id.encode()).hexdigest()[:8]}"


def indexed_job(wanted: PodRequest) -> dict[str, Any]:
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
            "ttlSecondsAfterFinished": wanted.site.forget_seconds,
            "template": {"metadata": _metadata(wanted, named=False), "spec": _pod(wanted)},
        },
    }


def _metadata(wanted: PodRequest, named: bool = True) -> dict[str, Any]:
    name = name_of(wanted.task_id)
    metadata = {
        "labels": {**MANAGED, NAME: name},
        "annotations": {TASK: wanted.task_id, JOB: wanted.job_id, WHAT: wanted.what},
    }
    return {"name": name, **metadata} if named else metadata


def _pod(wanted: PodRequest) -> dict[str, Any]:
    label, pool = wanted.pool.label
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(wanted.grace_seconds + HOME_SECONDS),
        "nodeSelector": {label: pool},
        "affinity": {"podAntiAffinity": _apart(), **wanted.site.affinity()},
        "tolerations": [toleration.manifest() for toleration in wanted.tolerations],
        "containers": [_container(wanted)],
        "volumes": wanted.site.volumes(),
        **wanted.site.pod(),
    }


def _apart() -> dict[str, Any]:
    """No two pods of ours on one node."""
    term = {"labelSelector": {"matchLabels": MANAGED}, "topologyKey": _HOSTNAME}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _container(wanted: PodRequest) -> dict[str, Any]:
    pod = {"name": "MLCD_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    requests = wanted.pool.requests
    limits = {key: value for key, value in requests.items() if key not in ("cpu", "memory")}
    return {
        "name": CONTAINER,
        "image": wanted.image,
        "command": ["bash", "-c", _holder(wanted)],
        "env": [pod, {"name": "MLCD_FOLDER", "value": wanted.folder}],
        "resources": {"requests": requests, **({"limits": limits} if limits else {})},
        "volumeMounts": [
            {"name": "mlcd", "mountPath": wanted.folder},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108  # data loaders want more than Docker's 64 MiB
            *wanted.site.mounts(),
        ],
        **wanted.site.container(),
    }


def _holder(wanted: PodRequest) -> str:
    return _HOLDER.format(
        lease_seconds=math.ceil(wanted.lease_seconds),
        grace_seconds=math.ceil(wanted.grace_seconds),
        leaving=LEAVING,
        taken=NodeEnd.TAKEN.value,
    )
