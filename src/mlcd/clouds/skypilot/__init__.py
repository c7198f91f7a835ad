"""Whatever SkyPilot can rent, as a cloud: its catalog is what is for sale, a SkyPilot cluster is a deployment.

    SkyPilotCloud ──► sky (its SDK)                                    what there is, what is rented
       └──► courier (mlcd.clouds.remote) ──► sky.launch, then ssh ──► agent ──► the user's program

A cluster carries SkyPilot's autostop with `down` as its lease: renewed while the courier lives, the end of the cluster otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlcd.clouds.base import Cloud
from mlcd.clouds.skypilot.cloud import SkyPilotCloud
from mlcd.errors import UserError
from mlcd.settings import Settings


def open_cloud(settings: Settings, options: Mapping[str, str]) -> Cloud:
    """SkyPilot as it is set up on this computer; it takes no options."""
    if options:
        raise UserError(f"SkyPilot has no option '{next(iter(options))}'.", "Use the settings.")
    return SkyPilotCloud(settings.home, settings.skypilot)
