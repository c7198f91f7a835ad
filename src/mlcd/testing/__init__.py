"""Contracts that ship as test classes: a new cloud, platform, strategy or client subclasses one and is tested."""

from __future__ import annotations

from mlcd.testing.client_contract import ClientContract
from mlcd.testing.clouds import CloudContract
from mlcd.testing.platform_contract import PlatformContract
from mlcd.testing.searcher_contract import SearcherContract

__all__ = ["ClientContract", "CloudContract", "PlatformContract", "SearcherContract"]
