"""This computer keeps the promises of a cloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.clouds.base import Cloud
from mlcd.clouds.local import open_cloud
from mlcd.clouds.local.settings import LocalSettings
from mlcd.settings import Settings
from mlcd.testing import CloudContract


@pytest.mark.slow
class TestLocalCloud(CloudContract):
    """Real processes on this computer, two cores of which may be shared."""

    def open_cloud(self, home: Path) -> Cloud:
        return open_cloud(Settings(home=home, clouds=(LocalSettings(cores=2),)), {})
