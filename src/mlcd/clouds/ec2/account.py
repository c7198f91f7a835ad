"""An AWS account: clients of its regions, which wait and try again when they are asked too often."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

from mlcd.clouds.ec2.errors import load_botocore, translated
from mlcd.clouds.ec2.settings import Ec2Settings

PRICE_REGION = "us-east-1"  # where the price list is served
_FIRST_REGION = "us-east-1"  # where to ask for the regions when none is set


class Account:
    """Whoever AWS's own chain of credentials says we are."""

    def __init__(self, settings: Ec2Settings) -> None:
        load_botocore()
        self._settings = settings
        self._clients: dict[tuple[str, str], Any] = {}
        self._turn = threading.Lock()  # sessions are not for several threads at once

    @cached_property
    def regions(self) -> list[str]:
        """Where machines may be rented: those of the settings, or else the default one."""
        named = [region.strip() for region in self._settings.regions.split(",") if region.strip()]
        return named or [self._session.region_name or _FIRST_REGION]

    def enabled_regions(self) -> list[str]:
        """Where this account could have machines: the regions of the settings, or else all that are enabled."""
        if self._settings.regions:
            return self.regions
        with translated("list its regions"):
            found = self.client("ec2", self.regions[0]).describe_regions()["Regions"]
        return [region["RegionName"] for region in found]

    def client(self, service: str, region: str) -> Any:
        """A client; the same one every time."""
        with self._turn:
            if (service, region) not in self._clients:
                self._clients[service, region] = self._session.client(service, region_name=region, config=_patient())
            return self._clients[service, region]

    @cached_property
    def _session(self) -> Any:
        import boto3

        return boto3.session.Session()


def _patient() -> Any:
    """Throttled calls are tried again, each time after a longer pause."""
    from botocore.config import Config

    return Config(retries={"mode": "standard", "max_attempts": 6}, connect_timeout=5, read_timeout=30)
