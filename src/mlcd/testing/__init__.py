"""Contracts that ship as test classes: a new cloud or strategy subclasses one and is tested."""

from __future__ import annotations

from mlcd.testing.clouds import CloudContract
from mlcd.testing.searcher_contract import SearcherContract

__all__ = ["CloudContract", "SearcherContract"]
