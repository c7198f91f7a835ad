"""Training on serverless functions: memory size is scale-up, the number of functions is scale-out.

    FunctionsCloud.launch ──► scheduler (detached, one for each task)
                                 │  invokes every function itself, follows it, restarts it before its time is up
             Lambda's API ◄──────┤  AWS, or the service on this computer (service/)
                                 │
             object store ◄──────┴── handler (in each function): runs the program, ships progress, logs, checkpoints
          parameter store ◄───────── the programs: gradients (mlcd.sync)

What scheduler and handlers tell each other goes through the object store (orders.py), so neither needs to reach the
other, and a scheduler that takes over finds everything there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlcd.clouds.base import Cloud
    from mlcd.settings import Settings


def open_cloud(settings: Settings, options: Mapping[str, str]) -> Cloud:
    """Functions on this computer or at AWS, as the settings say; it takes no options."""
    from mlcd.clouds.functions.cloud import FunctionsCloud
    from mlcd.errors import UserError

    if options:
        raise UserError(
            f"The functions cloud has no option '{next(iter(options))}'.", "Leave the option out."
        )
    return FunctionsCloud(settings)
