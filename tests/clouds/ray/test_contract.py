"""A Ray cluster keeps the promises of a cloud."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clouds.provider_contract import ProviderContract
from mlcd.clouds.base import Cloud
from mlcd.clouds.ray.settings import RaySettings
from mlcd.settings import Settings


@pytest.mark.slow
class TestRayCloud(ProviderContract):
    """A real cluster of small nodes on this computer."""

    @pytest.fixture(autouse=True)
    def _enter(self, ray_settings: RaySettings) -> None:
        self.settings = ray_settings

    def open_cloud(self, home: Path) -> Cloud:
        from mlcd.clouds.ray import open_cloud

        return open_cloud(replace(Settings(home=home), clouds=(self.settings,)), {})
