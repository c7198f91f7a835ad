"""Timeouts that name the workers that are missing.

A worker that waits posts a notice that says for whom. After the timeout, a worker that others wait for and that does not
wait itself is missing. The first worker to time out posts the missing ranks, and all others then stop waiting at once.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence

from mlcd.sync.errors import StaleWorker, SyncTimeout
from mlcd.sync.store import ParameterStore

_CHECKS = 8  # in the time of one timeout
_LONGEST_INTERVAL_S = 5.0


class WorkerTimeout:
    """The timeout of one wait of one worker."""

    def __init__(self, store: ParameterStore, timeout_s: float, generation: int) -> None:
        self.interval_s = min(_LONGEST_INTERVAL_S, timeout_s / _CHECKS)
        self._store = store
        self._timeout_s = timeout_s
        self._generation = generation
        self._began_s: float | None = None

    def check(self, missing: Sequence[int]) -> None:
        """Return to wait on for the missing ranks; raise SyncTimeout after the timeout, StaleWorker where a newer generation has begun."""
        now = time.monotonic()
        if self._began_s is None:
            self._began_s = now - self.interval_s
        if self._store.newest_generation() > self._generation:
            raise StaleWorker(f"A newer generation than {self._generation} has begun without this worker.")
        notices = _read(self._store.notices())
        if reported := [rank for notice in notices.values() for rank in notice.get("missing", ())]:
            raise SyncTimeout(set(reported), self._timeout_s)
        if now - self._began_s >= self._timeout_s:
            self._time_out(missing, {rank: notice.get("waits_for", ()) for rank, notice in notices.items()})
        self._store.post(json.dumps({"waits_for": list(missing)}), 3 * self.interval_s)

    def _time_out(self, missing: Sequence[int], waits: Mapping[int, Sequence[int]]) -> None:
        ranks = really_missing(missing, waits)
        self._store.post(json.dumps({"missing": sorted(ranks)}), 10 * self._timeout_s)
        raise SyncTimeout(ranks, self._timeout_s)


def _read(notices: Mapping[int, str]) -> dict[int, dict[str, list[int]]]:
    read = {}
    for rank, notice in notices.items():
        with contextlib.suppress(ValueError):  # it is being written at this moment
            read[rank] = json.loads(notice)
    return read


def really_missing(waited_for: Sequence[int], waits: Mapping[int, Sequence[int]]) -> set[int]:
    """The ranks that somebody waits for, directly or indirectly, and that do not wait themselves; all of them where everybody waits."""
    seen: set[int] = set()
    to_visit = list(waited_for)
    while to_visit:
        rank = to_visit.pop()
        if rank not in seen:
            seen.add(rank)
            to_visit += waits.get(rank, ())
    return {rank for rank in seen if rank not in waits} or set(waited_for)
