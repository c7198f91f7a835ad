"""Brings the ranks' gradient norms together at rank 0 without ever making one rank wait for another.

Each rank leaves its newest norms in the store that the process group shares; rank 0 picks up those of the same step. The
threads that report do it, so the training issues no collective of mlcd's that another rank could fail to answer.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Any

from mlcd.worker import ranks
from mlcd.worker.noise.meter import NoiseMeter
from mlcd.worker.session import Session

_KEPT = 40  # steps that a rank leaves in the store: all that may be measured between two polls


@dataclass(frozen=True)
class RankNorms:
    """One rank's part of a step."""

    step: int
    local_sq_norm: float
    global_sq_norm: float
    local_batch: float
    global_batch: float


class Exchange:
    """What this rank has to give and, at rank 0, what it still waits for."""

    def __init__(self, session: Session, meter: NoiseMeter) -> None:
        self._session = session
        self._meter = meter
        self._own: deque[RankNorms] = deque(maxlen=_KEPT)
        self._sent = 0
        self._taken = 0

    def put(self, norms: RankNorms) -> None:
        """Give this rank's norms of a step."""
        self._own.append(norms)

    def poll(self) -> None:
        """Send what is new; at rank 0 take what has come. The reporter's thread calls it."""
        store = ranks.shared_store()
        own = list(self._own)
        if store is None or not own:
            return
        try:
            if ranks.rank(self._session.env) == 0:
                self._take(store, own)
            elif own[-1].step > self._sent:
                store.set(self._key(ranks.rank(self._session.env)), json.dumps([_pair(one) for one in own]))
                self._sent = own[-1].step
        except RuntimeError:  # the first rank has gone, and the store with it
            return

    def _take(self, store: Any, own: list[RankNorms]) -> None:
        waiting = [norms for norms in own if norms.step > self._taken]
        others = self._others(store) if waiting else []
        for norms in waiting:
            came = [steps[norms.step] for steps in others if norms.step in steps]
            if len(came) < len(others) and len(own) < _KEPT:
                return  # later steps wait for this one, so that they are observed in order
            self._meter.observe(
                [norms.local_sq_norm, *came], norms.global_sq_norm, norms.local_batch, norms.global_batch
            )
            self._taken = norms.step

    def _others(self, store: Any) -> list[dict[int, float]]:
        """Of each other rank: its squared norm at each step it left."""
        keys = [self._key(rank) for rank in range(1, ranks.world_size(self._session.env))]
        return [_steps(store.get(key)) if store.check([key]) else {} for key in keys]

    def _key(self, rank: int) -> str:
        return f"mlcd/{self._session.env.task_id}/noise/{rank}"


def _pair(norms: RankNorms) -> tuple[int, float]:
    return norms.step, norms.local_sq_norm


def _steps(text: bytes) -> dict[int, float]:
    return {int(step): float(value) for step, value in json.loads(text)}
