"""Whatever SkyPilot can rent, as a cloud: its catalog is what is for sale, a SkyPilot cluster is a deployment.

    SkyPilotCloud ──► sky (its SDK)                                    what there is, what is rented
       └──► runner (mlcd.clouds.remote) ──► sky.launch, then ssh ──► agent ──► the user's program

A cluster carries SkyPilot's autostop with `down` as its lease: renewed while the runner lives, the end of the cluster otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlcd.clouds.base import CloudPlugin
from mlcd.clouds.skypilot.settings import SkyPilotSettings

if TYPE_CHECKING:
    from mlcd.clouds.base import Cloud
    from mlcd.settings import Settings


def _open(settings: Settings, options: Mapping[str, str]) -> Cloud:
    from mlcd.clouds.skypilot.cloud import SkyPilotCloud

    return SkyPilotCloud(settings.home, settings.of(SkyPilotSettings))


open_cloud = CloudPlugin(
    "skypilot",
    _open,
    settings=SkyPilotSettings,
    install="pip install 'mlcd[skypilot]'",
    page="how-to/skypilot.md",
)
