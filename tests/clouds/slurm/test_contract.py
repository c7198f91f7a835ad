"""A Slurm cluster keeps the promises of a cloud."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.clouds.base import Cloud
from mlcd.clouds.slurm import open_cloud
from mlcd.clouds.slurm.settings import SlurmSettings
from mlcd.settings import Settings
from mlcd.testing import CloudContract


@pytest.mark.slow
@pytest.mark.xdist_group("slurm")
class TestSlurmCloud(CloudContract):
    """A real cluster of three nodes on this computer."""

    patience_seconds = 60.0

    @pytest.fixture(autouse=True)
    def _enter(self, slurm_settings: SlurmSettings) -> None:
        self.settings = slurm_settings

    def open_cloud(self, home: Path) -> Cloud:
        return open_cloud(replace(Settings(home=home), clouds=(self.settings,)), {})
