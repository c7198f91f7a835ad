"""How long each step of the synchronisation takes (figure 5 of the SMLT paper)."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace

UL_SHARD, DL_SHARD, UL_AGGR, DL_GRAD = "ul_shard_s", "dl_shard_s", "ul_aggr_s", "dl_grad_s"


@dataclass(frozen=True)
class StepTimes:
    """Seconds in which each step was under way.

    Through servers the steps overlap, and the time in which a worker only waits for others belongs to none. In shared
    memory they follow each other, waiting included, and add up to the whole.
    """

    ul_shard_s: float = 0.0  # cut the gradient and upload its shards
    dl_shard_s: float = 0.0  # download and aggregate the own shard of all workers
    ul_aggr_s: float = 0.0  # upload the aggregated shard
    dl_grad_s: float = 0.0  # download all aggregated shards

    def plus(self, step: str, seconds: float) -> StepTimes:
        """With so much more of one step."""
        return replace(self, **{step: getattr(self, step) + seconds})


class Stopwatch:
    """Times steps that follow each other: adds the time since the last one ended."""

    def __init__(self) -> None:
        self.times = StepTimes()
        self._last_s = time.perf_counter()

    def start(self) -> None:
        """A synchronisation begins."""
        self._last_s = time.perf_counter()

    def done(self, step: str) -> None:
        """A part of a step has ended now."""
        now = time.perf_counter()
        self.times = self.times.plus(step, now - self._last_s)
        self._last_s = now


class OverlapTimer:
    """Times steps that overlap: adds the time in which any part of a step is under way."""

    def __init__(self) -> None:
        self.times = StepTimes()
        self._under_way: Counter[str] = Counter()
        self._since_s: dict[str, float] = {}

    def begin(self, step: str) -> None:
        """A part of a step begins."""
        if not self._under_way[step]:
            self._since_s[step] = time.perf_counter()
        self._under_way[step] += 1

    def end(self, step: str) -> None:
        """A part of a step has ended."""
        self._under_way[step] -= 1
        if not self._under_way[step]:
            self.times = self.times.plus(step, time.perf_counter() - self._since_s[step])
