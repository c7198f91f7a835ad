"""An existing Ray cluster as a cloud: its nodes are what is for sale, its placement groups what is rented.

    RayCloud ──► bridge (a process that is connected)         what there is, what is rented, give it back
       └──► runner (mlcd.clouds.remote) ──► Host (an actor in each bundle of a placement group) ──► agent ──► program

A task has one placement group, STRICT_SPREAD, detached, whose name says whose it is; whoever is connected to the cluster can find
it there. In each of its bundles a detached actor holds the resources and serves the runner on that node: it runs
commands and reads and writes files. Should nobody renew the lease, the actor gives the placement group back.

The process that drives a job is never connected to Ray itself: Ray ends a connected process when its cluster is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mlcd.clouds.base import CloudPlugin
from mlcd.clouds.ray.settings import RaySettings

if TYPE_CHECKING:
    from mlcd.clouds.base import Cloud
    from mlcd.settings import Settings


def _open(settings: Settings, options: Mapping[str, str]) -> Cloud:
    from mlcd.clouds.ray.cloud import RayCloud

    ours = settings.of(RaySettings)
    return RayCloud(settings.home, replace(ours, address=options.get("address", ours.address)))


open_cloud = CloudPlugin(
    "ray",
    _open,
    settings=RaySettings,
    options=frozenset({"address"}),
    install="pip install 'mlcd[ray]'",
    address=lambda settings: settings.of(RaySettings).address,
    page="how-to/ray.md",
)
