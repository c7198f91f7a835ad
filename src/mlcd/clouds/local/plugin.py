"""What the entry point of the cloud local names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlcd.clouds.base import CloudPlugin
from mlcd.clouds.local.settings import LocalSettings

if TYPE_CHECKING:
    from mlcd.clouds.base import Cloud
    from mlcd.settings import Settings


def _open(settings: Settings, options: Mapping[str, str]) -> Cloud:
    from mlcd.clouds.local.cloud import LocalCloud

    return LocalCloud(settings)


open_cloud = CloudPlugin(
    "local", _open, settings=LocalSettings, address=lambda settings: "local", page="how-to/local-prices.md"
)
