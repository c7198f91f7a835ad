"""An existing Ray cluster as a cloud: its nodes are what is for sale, its books are Ray's placement groups.

    RayCloud ──► teller (a process that is connected)          what there is, what is rented, give it back
       └──► courier (mlcd.clouds.remote) ──► Host (an actor in each bundle of a placement group) ──► agent ──► program

A task has one placement group, STRICT_SPREAD, detached, whose name says whose it is; whoever is connected to the cluster can find
it there. In each of its bundles a detached actor holds the resources and is the courier's hand on that node: it runs
commands and reads and writes files. Should nobody renew the lease, the actor gives the placement group back.

The process that drives a job is never connected to Ray itself: Ray ends a connected process when its cluster is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mlcd.clouds.base import Cloud
from mlcd.clouds.ray.cloud import RayCloud
from mlcd.errors import UserError
from mlcd.settings import Settings


def open_cloud(settings: Settings, options: Mapping[str, str]) -> Cloud:
    """The cluster of the settings, or that of the option `address`."""
    unknown = sorted(set(options) - {"address"})
    if unknown:
        raise UserError(f"A Ray cluster has no option '{unknown[0]}'.", "Known: address.")
    address = options.get("address", settings.ray.address)
    return RayCloud(settings.home, replace(settings.ray, address=address))
