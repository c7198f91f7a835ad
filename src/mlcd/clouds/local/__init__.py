"""This computer as a cloud: its cores and GPUs are what is for sale, its process groups are the nodes.

    LocalCloud.launch ──► runner (detached, one for each task) ──► nodes (a process group each)
         │                     │
         └── status, stop ◄────┴── home/local/tasks/<task id>/: spec.json, state.json, lock, stop

A runner owes nothing to the process that launched it: that one may die at any line, another finds the task
by the folder. The import stays light, since every runner begins here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlcd.clouds.local.plugin import open_cloud as open_cloud


def __getattr__(name: str) -> object:
    """`open_cloud`, imported when it is asked for: every task runner imports this package when it starts."""
    if name == "open_cloud":
        from mlcd.clouds.local.plugin import open_cloud

        return open_cloud
    raise AttributeError(name)
