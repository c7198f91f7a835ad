"""A Kubernetes cluster as a cloud: its node pools are what is for sale, an indexed Job is a deployment.

    KubernetesCloud ──► kubectl                                         what there is, what is rented
       └──► runner (mlcd.clouds.remote) ──► kubectl exec ──► agent (in each pod of an indexed Job) ──► the user's program

All goes through `kubectl`, with the cluster, the credentials and the rights that it has on this computer. A pod holds its node
for as long as somebody renews its lease, and ends by itself when nobody does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mlcd.clouds.base import CloudPlugin
from mlcd.clouds.kubernetes.settings import KubernetesSettings

if TYPE_CHECKING:
    from mlcd.clouds.base import Cloud
    from mlcd.core.view import Finding
    from mlcd.settings import Settings


def _open(settings: Settings, options: Mapping[str, str]) -> Cloud:
    from mlcd.clouds.kubernetes.cloud import KubernetesCloud

    return KubernetesCloud(settings.home, settings.of(KubernetesSettings))


def _check(settings: Settings) -> Iterable[Finding]:
    from mlcd.clouds.kubernetes.checking import check

    return check(settings.of(KubernetesSettings))


open_cloud = CloudPlugin(
    "kubernetes", _open, aliases=("k8s",), settings=KubernetesSettings, check=_check, page="how-to/kubernetes.md"
)
