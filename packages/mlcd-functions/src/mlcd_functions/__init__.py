"""Training on serverless functions: memory size is scale-up, the number of functions is scale-out.

    FunctionsCloud.launch ──► runner (detached, one for each task)
                                 │  invokes every function itself, follows it, restarts it before its time is up
             Lambda's API ◄──────┤  AWS, or the service on this computer (service/)
                                 │
             object store ◄──────┴── handler (in each function): runs the program, ships progress, logs, checkpoints
          parameter store ◄───────── the programs: gradients (mlcd.sync)

What runner and handlers tell each other goes through the object store (messages.py), so neither needs to reach the
other, and a runner that takes over finds everything there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlcd_functions.plugin import open_cloud as open_cloud


def __getattr__(name: str) -> object:
    """`open_cloud`, imported when it is asked for: every task runner and every function imports this package when it starts."""
    if name == "open_cloud":
        from mlcd_functions.plugin import open_cloud

        return open_cloud
    raise AttributeError(name)
