"""When the next checkpoint is due: Young's interval, from what a save takes here and how often work is lost.

    δ   what a save takes of the training's time, measured in this process: the mean of all saves so far
    M   mean seconds between two losses, all machines of the deployment together; mlcd says it (MLCD_LOSS_SECONDS)

    τ = √(2 δ M)                     Young, CACM 17(9), 1974, equation 3; the first order of Daly, 2006

Half of τ is lost on average at each loss, and δ ÷ τ of the time goes into saving: τ makes the sum of both least. It is
bounded: where M is short, saving must not take the time that training needs, and where it is long, it is a guess.

Ranks that share a process group save after the same step. The first of them decides, some steps ahead: none can end
those steps before all have begun them, so each finds what was decided in the store that they share. Two would do where
every step waits for the others. Where they are only queued, as on a GPU, or gradients add up over several batches, a
rank may be further: so it is half a second's worth of them, and LEAST_AHEAD at least. While the pace is not known nothing is
decided.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import mlcd.worker.ranks as ranks
from mlcd.worker.counts import Counts
from mlcd.worker.environment import Environment
from mlcd.worker.stop import AHEAD_SECONDS

LEAST_AHEAD = 10  # steps, while the pace is that of slow first ones; a look into the store may find nothing in time
LONGEST_SECONDS = 3600.0
LEAST_COSTS = 4.0  # × what a save takes: no more than a fifth of the time goes into saving
FIRST_SECONDS = 10.0  # until the first save shows what one takes
SHORTEST_SAVE_SECONDS = 0.001  # one that took no time to speak of would never be due again


def interval_seconds(save_seconds: float, loss_seconds: float) -> float:
    """Seconds of training between two saves: τ, within its bounds."""
    save_seconds = max(save_seconds, SHORTEST_SAVE_SECONDS)
    return max(min(math.sqrt(2.0 * save_seconds * loss_seconds), LONGEST_SECONDS), LEAST_COSTS * save_seconds)


def mean_loss_seconds(expected_seconds: float, seen: int, in_seconds: float) -> float:
    """M after so many losses in that time: what was expected counts like one loss, a gamma prior of shape one."""
    return (expected_seconds + in_seconds) / (1.0 + seen)


class Saving:
    """Measures the saves of this process, and says when the next is due."""

    def __init__(self, set_seconds: float, loss_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._set_seconds = set_seconds  # the job's own interval; 0: it has none
        self.loss_seconds = loss_seconds  # 0: not known, as in a probe: nothing is due
        self._clock = clock
        self._saved_at = clock()
        self._told_at: float | None = None  # that it is time to save; None: the program has done so since
        self._saves = 0
        self._seconds = 0.0  # of all saves
        self.asked = False  # the program goes by what is said here

    @property
    def every_seconds(self) -> float:
        """The interval in use; 0: nothing is ever due."""
        if self._set_seconds or not self.loss_seconds:
            return self._set_seconds
        return interval_seconds(self.takes_seconds, self.loss_seconds) if self._saves else FIRST_SECONDS

    @property
    def takes_seconds(self) -> float:
        """What a save takes, on average; 0: there was none."""
        return self._seconds / self._saves if self._saves else 0.0

    def due(self, step_seconds: float, steps_ahead: int = 0) -> bool:
        """Whether to save that many steps from now, rather than a step later: the interval is not passed."""
        self.asked = True
        if self._told_at is not None:  # nobody has said that a save has ended: it took what the step did not
            self.saved(self._told_at, self._clock() - step_seconds)
        passed = self._clock() - self._saved_at
        return 0.0 < self.every_seconds <= passed + (steps_ahead + 1) * step_seconds

    def told(self) -> None:
        """The program is told to save now."""
        self._told_at = self._clock()

    def saved(self, began_at: float, ended_at: float | None = None) -> None:
        """A save has ended that began then, or when the program was told to."""
        ended_at = self._clock() if ended_at is None else ended_at
        began_at = began_at if self._told_at is None else min(began_at, self._told_at)
        self._saved_at, self._told_at = ended_at, None
        self._saves += 1
        self._seconds += max(0.0, ended_at - began_at)


class SavePoint:
    """The step after which the program is to save, alike on all ranks of a process group."""

    def __init__(self, env: Environment, counts: Counts) -> None:
        self.saving = Saving(env.save_seconds, env.loss_seconds)
        self._env = env
        self._counts = counts
        # Batches: only the last pass of a step waits for the other ranks.
        self._least_ahead = max(LEAST_AHEAD, 1 + env.accumulation_steps)
        self._step: int | None = None
        self._number = 0

    def due(self) -> bool:
        """Whether to save now. Without a process group the first rank alone is told: it is the one that commits."""
        store = ranks.shared_store() if ranks.world_size(self._env) > 1 else None
        step = self._counts.now.steps
        if self._step is None:
            self._step = self._decide(store, step) if ranks.rank(self._env) == 0 else self._decided(store)
        if self._step is None or step < self._step:
            return False
        self._step, self._number = None, self._number + 1
        self.saving.told()
        return True

    def _decide(self, store: Any, step: int) -> int | None:
        pace = self._counts.steps_per_second
        ahead = self._ahead(pace) if store is not None else 0
        if not self.saving.due(1.0 / pace if pace else 0.0, ahead):
            return None
        if store is not None:
            if not pace:  # nor how far ahead the others may be
                return None
            store.set(self._key, str(step + ahead))
        return step + ahead

    def _ahead(self, pace: float) -> int:
        """Steps that no rank can have done by now."""
        seconds = min(AHEAD_SECONDS, self.saving.every_seconds / 2)
        return max(self._least_ahead, math.ceil(seconds * pace))

    def _decided(self, store: Any) -> int | None:
        found = store is not None and store.check([self._key])
        return int(store.get(self._key)) if found else None

    @property
    def _key(self) -> str:
        return f"mlcd/{self._env.task_id}/save-{self._number}"
