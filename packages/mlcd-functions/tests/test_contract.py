"""Functions keep the promises of a cloud."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from function_tasks import end_service, settings
from mlcd.clouds.base import Cloud
from mlcd.core.machines import Deployment
from mlcd.testing import CloudContract
from mlcd_functions import open_cloud


@pytest.mark.slow
class TestFunctionsCloud(CloudContract):
    """Real functions in the service on this computer."""

    patience_seconds = 90.0

    def open_cloud(self, home: Path) -> Cloud:
        return open_cloud(settings(home), {})

    def deployment(self, cloud: Cloud) -> Deployment:
        """Large enough to start fast: the CPU share goes by memory."""
        offer = next(offer for offer in cloud.offers() if offer.instance.name == "fn-3538mb")
        return Deployment(offer, nodes=1)

    @pytest.fixture(autouse=True)
    def _no_service_left(self, home: Path) -> Iterator[None]:
        yield
        end_service(home)
