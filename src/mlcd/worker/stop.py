"""When the training should end: the work is done, the target is reached, or SIGTERM came.

Ranks that train together must end at the same step, or one waits for the others for ever. Whether the work is done all
ranks see alike. A SIGTERM or a target comes to one of them first: it proposes a step a little ahead through the store of
the process group, the others look there twice a second, and all end when they get to that step.
"""

from __future__ import annotations

import math
import signal
import threading
from typing import Any

from mlcd.worker import ranks
from mlcd.worker.counts import Counts
from mlcd.worker.environment import Environment

_AHEAD_SECONDS = 1.5  # three looks at the store


class Stop:
    """Hears the reasons to end and agrees with the other ranks on the step."""

    def __init__(self, env: Environment, counts: Counts) -> None:
        self.env = env
        self.counts = counts
        self.samples_before = env.samples_before
        self.wanted = False  # by this rank
        self.agreed_step: int | None = None
        self._world_size = 0  # asking torch at every step would take longer than all the rest

    def due(self) -> bool:
        """Whether to end now."""
        if not self.env.inside:
            return False
        if self.agreed_step is not None:
            return self.counts.now.steps >= self.agreed_step
        if self.work_done():
            self._propose(ahead_seconds=0.0)
        elif self.wanted:
            self._propose(_AHEAD_SECONDS)
        else:
            return False
        return self.agreed_step is not None and self.counts.now.steps >= self.agreed_step

    def work_done(self) -> bool:
        """Whether all samples of the job are done, this and the other ranks' and the earlier attempts'."""
        return 0 < self.env.work_samples <= self.total_samples()

    def total_samples(self, in_flight: bool = False) -> float:
        """Samples of the whole job so far; every rank does as many as this one."""
        own = self.counts.now.samples + (self.counts.in_flight if in_flight else 0.0)
        return self.samples_before + own * (self._world_size or self._count_ranks())

    def look(self) -> None:
        """See how many ranks there are, and whether another one has proposed a step to end at."""
        store = ranks.shared_store() if self._count_ranks() > 1 and self.agreed_step is None else None
        if store is None:
            return
        try:
            if store.check([self._key]):
                self.agreed_step = int(store.get(self._key))
        except (RuntimeError, ValueError):  # the first rank has gone, and the store with it
            return

    def _propose(self, ahead_seconds: float) -> None:
        now = self.counts.now.steps
        store = ranks.shared_store() if self._count_ranks() > 1 else None
        if store is None:
            self.agreed_step = now
            return
        ahead = math.ceil(ahead_seconds * self.counts.steps_per_second)
        step = now + (max(1, ahead) if ahead_seconds else 0)
        self.agreed_step = self._first_proposal(store, step)

    def _first_proposal(self, store: Any, step: int) -> int:
        try:
            return int(store.compare_set(self._key, "", str(step)))
        except (RuntimeError, ValueError, NotImplementedError):
            return step

    def _count_ranks(self) -> int:
        self._world_size = ranks.world_size(self.env)
        return self._world_size

    @property
    def _key(self) -> str:
        return f"mlcd/stop/{self.env.task_id}"

    def listen(self) -> None:
        """Take SIGTERM as a wish to end, unless the program has its own answer to it."""
        if not self.env.inside or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminated)

    def unlisten(self) -> None:
        """Let SIGTERM end this process again: it is a child, such as a data loader's worker."""
        if signal.getsignal(signal.SIGTERM) == self._terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _terminated(self, number: int, frame: Any) -> None:
        self.wanted = True
