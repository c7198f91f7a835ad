"""Contracts that ship as test classes: a new cloud or strategy subclasses one and is tested."""

from __future__ import annotations

from mlcd.testing.clouds import CloudContract

__all__ = ["CloudContract"]
