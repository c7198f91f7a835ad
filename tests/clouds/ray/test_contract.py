"""A Ray cluster keeps the promises of a cloud."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.clouds.base import Cloud
from mlcd.settings import RaySettings, Settings
from mlcd.testing import CloudContract


@pytest.mark.slow
class TestRayCloud(CloudContract):
    """A real cluster of small nodes on this computer."""

    patience_seconds = 120.0

    @pytest.fixture(autouse=True)
    def _enter(self, ray_settings: RaySettings) -> None:
        self.settings = ray_settings

    def open_cloud(self, home: Path) -> Cloud:
        from mlcd.clouds.ray import open_cloud

        return open_cloud(replace(Settings(home=home), ray=self.settings), {})
