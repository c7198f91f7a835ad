"""What must outlive every process: jobs, tasks, trials, attempts, bills, events and training curves."""

from __future__ import annotations

from mlcd.store.accounts import Accounts
from mlcd.store.control import LostControlError
from mlcd.store.service import Service
from mlcd.store.store import Store, open_store

__all__ = ["Accounts", "LostControlError", "Service", "Store", "open_store"]
