"""How long the steps of the paper's figure 5 take."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class StepTimes:
    """Seconds spent in each step, waiting included; they add up to the whole."""

    ul_shard_s: float = 0.0  # cut the gradient and upload its shards
    dl_shard_s: float = 0.0  # download and aggregate the own shard of all workers
    ul_aggr_s: float = 0.0  # upload the aggregated shard
    dl_grad_s: float = 0.0  # download all aggregated shards

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.ul_shard_s + self.dl_shard_s + self.ul_aggr_s + self.dl_grad_s


class Stopwatch:
    """Adds the time since the last step ended to a step."""

    def __init__(self) -> None:
        self.times = StepTimes()
        self._last_s = time.perf_counter()

    def start(self) -> None:
        """A synchronisation begins."""
        self._last_s = time.perf_counter()

    def done(self, step: str) -> None:
        """A part of a step has ended now."""
        now = time.perf_counter()
        self.times = replace(self.times, **{step: getattr(self.times, step) + now - self._last_s})
        self._last_s = now
