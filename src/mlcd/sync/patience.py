"""Tells a worker that is missing from one that waits itself.

A worker that waits says so on the notice board, and for whom. When time is up, whoever is waited for and does not wait
itself is missing: the others only wait for it in turn. The first to give up posts its verdict, which ends the patience of
all others at once.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence

from mlcd.sync.errors import StaleWorker, SyncTimeout
from mlcd.sync.store import ParameterStore

_SLICES = 8  # looks around in the time of one timeout
_LONGEST_SLICE_S = 5.0


class Waiting:
    """One wait of one worker."""

    def __init__(self, store: ParameterStore, timeout_s: float, generation: int) -> None:
        self.slice_s = min(_LONGEST_SLICE_S, timeout_s / _SLICES)
        self._store = store
        self._timeout_s = timeout_s
        self._generation = generation
        self._began_s: float | None = None

    def waited(self, missing: Sequence[int]) -> None:
        """Go on waiting, or raise."""
        now = time.monotonic()
        if self._began_s is None:
            self._began_s = now - self.slice_s
        if self._store.newest_generation() > self._generation:
            raise StaleWorker(f"A newer generation than {self._generation} has begun without this worker.")
        notices = _read(self._store.notices())
        if verdict := [rank for notice in notices.values() for rank in notice.get("missing", ())]:
            raise SyncTimeout(set(verdict), self._timeout_s)
        if now - self._began_s >= self._timeout_s:
            self._give_up(missing, {rank: notice.get("waits_for", ()) for rank, notice in notices.items()})
        self._store.post(json.dumps({"waits_for": list(missing)}), 3 * self.slice_s)

    def _give_up(self, missing: Sequence[int], waits: Mapping[int, Sequence[int]]) -> None:
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
    """Who of those waited for, directly or by others, does not wait itself; all of them where everybody waits."""
    seen: set[int] = set()
    ahead = list(waited_for)
    while ahead:
        rank = ahead.pop()
        if rank not in seen:
            seen.add(rank)
            ahead += waits.get(rank, ())
    return {rank for rank in seen if rank not in waits} or set(waited_for)
