"""This computer as a cloud: its cores and GPUs are what is for sale, its process groups are the nodes.

    LocalCloud.launch ──► supervisor (detached, one for each task) ──► nodes (a process group each)
         │                     │
         └── status, stop ◄────┴── home/local/tasks/<task id>/: spec.json, state.json, lock, stop

A supervisor owes nothing to the process that launched it: that one may die at any line, another finds the task
by the folder. The import stays light, since every supervisor begins here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlcd.clouds.base import Cloud
    from mlcd.settings import Settings


def open_cloud(settings: Settings, options: Mapping[str, str]) -> Cloud:
    """This computer, at the prices in the settings; it takes no options."""
    from mlcd.clouds.local.cloud import LocalCloud
    from mlcd.errors import UserError

    if options:
        raise UserError(f"The local cloud has no option '{next(iter(options))}'.", "Leave the option out.")
    return LocalCloud(settings)
