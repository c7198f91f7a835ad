"""When the training should end: the work is done, the target is reached, or SIGTERM came.

Ranks that train together must end at the same step, or one waits for the others for ever. All ranks see alike whether the
work is done. A SIGTERM or a target may come to one of them first, so they agree through the store of their process
group, or of TensorFlow's or JAX's ranks, whatever the pace of each:

    wanted    one rank says so; every rank's thread looks for it twice a second
    heard     a rank that has seen it counts itself in, and from then on looks into the store after every step
    step      when all have heard, the first to come by sets a step that is ahead of it

No rank can have done that step before it was set, since it takes all of them to do it; so none misses it.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import mlcd.worker.ranks as ranks
from mlcd.worker.counts import Counts
from mlcd.worker.environment import Environment

_ALONE_SECONDS = 4.0  # for the others to hear; then a rank saves what it can by itself
AHEAD_SECONDS = 0.5  # steps of this time, at least one: ranks may differ by a few that need no exchange


class Stop:
    """Collects the reasons to end and agrees with the other ranks on the step."""

    def __init__(self, env: Environment, counts: Counts, alone: Callable[[], bool] = lambda: False) -> None:
        self.env = env
        self.counts = counts
        self._alone = alone  # whether other ranks do the same as this one, which counts once
        self.samples_before = env.samples_before
        self.wanted = False  # by this rank
        self.agreed_step: int | None = None
        self.heard_at: float | None = None
        self._world_size = 0  # asking torch at every step would take longer than all the rest

    def due(self) -> bool:
        """Whether to end now."""
        if not self.env.started_by_mlcd:
            return False
        if self.agreed_step is None:
            self._agree()
        if self.agreed_step is None:
            return False
        # A step agreed on after a SIGTERM may lie beyond the work's end, which all ranks see alike.
        return self.counts.now.steps >= self.agreed_step or self.work_done()

    def work_done(self) -> bool:
        """Whether all samples of the job are done, this and the other ranks' and the earlier attempts'."""
        return 0 < self.env.work_samples <= self.total_samples()

    def total_samples(self, in_flight: bool = False) -> float:
        """Samples of the whole job so far; every rank does as many as this one."""
        return self.total_of(self.counts.now.samples + (self.counts.in_flight if in_flight else 0.0))

    def total_of(self, own: float) -> float:
        """Samples of the whole job when this rank has done so many."""
        ranks_that_share = 1 if self._alone() else self._world_size or self._count_ranks()
        return self.samples_before + own * ranks_that_share

    def own_limit(self) -> float:
        """The samples of this rank at which the work is done, if it is the loop that counts them; else 0: ask at once."""
        if self.counts.reports_samples:
            return 0.0
        return (
            (self.env.work_samples - self.samples_before) / self._count_ranks() if self.env.work_samples else math.inf
        )

    def poll(self) -> None:
        """Check how many ranks there are and whether one of them wants to stop; the reporter's thread calls it."""
        store = self._store() if self.agreed_step is None and self.heard_at is None else None
        if store is None:
            return
        try:
            if self.wanted:
                store.set(self._key("wanted"), "1")
            if store.check([self._key("wanted")]):
                self.heard_at = time.monotonic()
                store.add(self._key("heard"), 1)
        except RuntimeError:  # the first rank has gone, and the store with it
            return

    def _agree(self) -> None:
        if self.work_done():
            self.agreed_step = self._set_step(self._store(), ahead=0)
        elif self.heard_at is not None:
            self._agree_with_others(self.heard_at)
        elif self.wanted and self._store() is None:
            self.agreed_step = self.counts.now.steps

    def _agree_with_others(self, heard_at: float) -> None:
        store = self._store()
        try:
            all_heard = store is None or store.add(self._key("heard"), 0) >= self._world_size
        except RuntimeError:
            all_heard = True  # there is no one left to agree with
        if all_heard or time.monotonic() > heard_at + _ALONE_SECONDS:
            self.agreed_step = self._set_step(store, math.ceil(AHEAD_SECONDS * self.counts.steps_per_second))

    def _set_step(self, store: Any, ahead: int) -> int:
        """The step that was set first."""
        now = self.counts.now.steps
        if store is None:
            return now
        step = now + (max(1, ahead) if self.heard_at is not None else 0)
        try:
            return int(store.compare_set(self._key("step"), "", str(step)))
        except (RuntimeError, ValueError, NotImplementedError):
            return now

    def _store(self) -> Any:
        """What the ranks share, where there are several and they share something."""
        return ranks.shared_store() if self._count_ranks() > 1 else None

    def _count_ranks(self) -> int:
        self._world_size = ranks.world_size(self.env)
        return self._world_size

    def _key(self, name: str) -> str:
        return f"mlcd/{self.env.task_id}/{name}"

    def handle_sigterm(self) -> None:
        """Take SIGTERM as a request to end, unless the program handles it itself."""
        if not self.env.started_by_mlcd or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminated)

    def restore_sigterm(self) -> None:
        """Let SIGTERM end this process again: it is a child, such as a data loader's worker."""
        if signal.getsignal(signal.SIGTERM) == self._terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _terminated(self, number: int, frame: Any) -> None:
        self.wanted = True
