"""A Kubernetes cluster as a cloud: its node pools are what is for sale, an indexed Job is a deployment.

    KubernetesCloud ──► kubectl                                         what there is, what is rented
       └──► courier (mlcd.clouds.remote) ──► kubectl exec ──► agent (in each pod of an indexed Job) ──► the user's program

All goes through `kubectl`, with the cluster, the credentials and the rights that it has on this computer. A pod holds its node
for as long as somebody renews its lease, and ends by itself when nobody does.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlcd.clouds.base import Cloud
from mlcd.clouds.kubernetes.cloud import KubernetesCloud
from mlcd.errors import UserError
from mlcd.settings import Settings


def open_cloud(settings: Settings, options: Mapping[str, str]) -> Cloud:
    """The cluster of the settings; it takes no options."""
    if options:
        raise UserError(f"Kubernetes has no option '{next(iter(options))}'.", "Use the settings.")
    return KubernetesCloud(settings.home, settings.kubernetes)
