"""Settings of the cloud kubernetes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlcd.settings import setting


@dataclass(frozen=True)
class KubernetesSettings:
    """A Kubernetes cluster, as a cloud."""

    section: ClassVar[str] = "kubernetes"

    kubectl: str = setting("kubectl", "the command")
    context: str = setting("", "of its configuration; none: the current one")
    namespace: str = setting("default", "where Jobs are made")
    image: str = setting("python:3.11", "of the pods; it needs bash, tar and Python")
    python: str = setting("python3", "the Python in it")
    folder: str = setting("/mlcd", "where pods keep mlcd's files")
    pool_label: str = setting("", "the label that names a node's pool; none: those of the known providers")
    tolerations: str = setting(
        "",
        "taints of nodes that are no obstacle, beside that of GPU nodes: `dedicated=training:NoSchedule, spot`",
    )
    nodes: str = setting("", "labels of the nodes that pods may run on: `zone=a|b, disk=ssd, !reserved`", empty="all")
    service_account: str = setting("", "of the pods", empty="the namespace's own")
    pull_secrets: str = setting("", "secrets with which the image is pulled: `registry, mirror`")
    priority_class: str = setting("", "of the pods")
    run_as: str = setting(
        "", "`user:group` in numbers, held as the standard `restricted` asks", empty="the image's user"
    )
    claims: str = setting("", "persistent volume claims with their places in the pods: `datasets=/data`")
    disk_gib: float = setting(0.0, "the most that a pod may keep on its node's disk; 0: no limit")
    shm_gib: float = setting(0.0, "the most of its shared memory; 0: no limit but the node's")
    forget_seconds: int = setting(3600, "an ended Job is kept for so long, should mlcd not delete it")
    prices: str = setting("", "a CSV with the columns `pool` and `usd_per_hour`")
    usd_per_cpu_hour: float = setting(0.05, "price of a CPU, for pools that the list does not name")
    usd_per_gpu_hour: float = setting(1.0, "price of a GPU, likewise")
    wait_seconds: float = setting(300.0, "how long a task waits for its pods to start")
    lost_seconds: float = setting(30.0, "a pod that does not answer for so long is lost")
    lease_seconds: float = setting(600.0, "pods whose lease nobody renews for so long end by themselves")
