"""EC2 keeps the promises of a cloud, tried on hosts that really boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2_settings import ec2_settings
from emulated import EmulatedEc2
from mlcd.clouds.base import Cloud
from mlcd.clouds.ec2 import open_cloud
from mlcd.testing import CloudContract


@pytest.mark.slow
class TestEc2(CloudContract):
    """The real API's protocol, runners, agents and ssh."""

    patience_seconds = 90.0

    @pytest.fixture(autouse=True)
    def _enter(self, ec2: EmulatedEc2) -> None:
        self.ec2 = ec2

    def open_cloud(self, home: Path) -> Cloud:
        return open_cloud(ec2_settings(home), {})
