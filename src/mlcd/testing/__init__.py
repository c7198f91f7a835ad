"""Contracts that ship as test classes: a new cloud, platform or strategy subclasses one and is tested."""

from __future__ import annotations

from mlcd.testing.clouds import CloudContract
from mlcd.testing.platform_contract import PlatformContract
from mlcd.testing.searcher_contract import SearcherContract

__all__ = ["CloudContract", "PlatformContract", "SearcherContract"]
