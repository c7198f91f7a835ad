"""Machines behind ssh keep the promises of a cloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopback_machines import Door, LoopbackCloud
from mlcd.clouds.base import Cloud
from mlcd.testing import CloudContract
from mlcd_emulate.needs import why_not


@pytest.mark.slow
class TestLoopbackCloud(CloudContract):
    """Real runners, agents and ssh; only the renting is books."""

    patience_seconds = 60.0

    @pytest.fixture(autouse=True)
    def _enter(self, door: Door) -> None:
        if not why_not():
            pytest.skip("the same promises are tried on emulated hosts, in tests/clouds/ec2")
        self.door = door

    def open_cloud(self, home: Path) -> Cloud:
        return LoopbackCloud(home, self.door.options)
