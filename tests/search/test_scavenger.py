"""Scavenger keeps the searcher's contract and does what the paper says."""

from __future__ import annotations

from mlcd.search.base import Searcher
from mlcd.search.scavenger import Scavenger
from mlcd.testing.searcher_contract import SearcherContract


class TestPartial(SearcherContract):
    def searcher(self) -> Searcher:
        return Scavenger()


class TestFull(SearcherContract):
    def searcher(self) -> Searcher:
        return Scavenger(mode="full")


class TestNone(SearcherContract):
    def searcher(self) -> Searcher:
        return Scavenger(mode="none")
