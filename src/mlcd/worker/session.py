"""The one session of this process, and what becomes of it in a child."""

from __future__ import annotations

import atexit
import math
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlcd.worker.ranks as ranks
from mlcd.worker.counts import Counts
from mlcd.worker.environment import Environment, read_environment
from mlcd.worker.quiet import quiet
from mlcd.worker.reporter import Reporter
from mlcd.worker.stop import Stop

_SURELY_MORE = 0.5  # of what was done before: whoever counts from zero tells less at first, and what was saved may be a little less


class Session:
    """Everything that mlcd knows in this process.

    A child of the program (a data loader's worker, say) reports nothing, unless it starts a process group
    of its own: then it is a rank that the program has spawned by itself.
    """

    def __init__(self, env: Environment, child: bool = False, mute: bool = False) -> None:
        self.env = env
        self.child = child
        self.mute = mute
        self.active = env.inside and not mute
        self.counts = Counts(env.local_batch_size)
        self.stop = Stop(env, self.counts)
        self.ticks: list[Callable[[], None]] = [
            self.stop.look
        ]  # done by the reporter's thread on every round
        self.reporter = Reporter(self._file, lambda: self.counts.now, self._tick)
        self.metrics: dict[str, float] = {}  # newest values
        self.metrics_before: dict[str, float] = {}  # of the checkpoint it goes on from, alike on all ranks
        self.steps_before = 0
        self.told_before = _told_by(
            env
        )  # step and samples that it told before the checkpoint it goes on from
        self._goes_on: dict[str, bool] = {}  # whether it counts on from there, or from zero again

    def start(self) -> None:
        """Begin to report, if mlcd is there to read it."""
        if self.env.inside and not self.mute and not (self.child and ranks.distributed() is None):
            self.reporter.start()

    def report(self, step: float | None, samples: float | None, metrics: dict[str, Any]) -> None:
        """Take note of what the program tells."""
        if step is not None or samples is not None:
            before_step, before_samples = self.told_before
            self.counts.tell(
                self._since("step", step, before_step), self._since("samples", samples, before_samples)
            )
        numbers = finite(metrics)
        self.metrics.update(numbers)
        self.reporter.add_metrics(numbers, step)
        goal = self.env.goal
        if goal and goal.metric in numbers and goal.reached(numbers[goal.metric]):
            self.stop.wanted = True
        if not self.reporter.started:
            self.start()

    def count_after(self, told: tuple[float, float]) -> None:
        """The program goes on from a checkpoint, before which it had told this much."""
        self.told_before = told
        self._goes_on = {}

    def _since(self, name: str, total: float | None, before: float) -> float | None:
        """What was done since the checkpoint; a program goes on counting from there or begins at zero, as it does at first."""
        if total is None:
            return None
        goes_on = self._goes_on.setdefault(name, float(total) >= _SURELY_MORE * before)
        return float(total) - before if goes_on else float(total)

    def _tick(self) -> None:
        for tick in self.ticks:
            tick()

    def _file(self) -> Path | None:
        if self.env.progress_dir is None or (self.child and ranks.distributed() is None):
            return None
        return self.env.progress_dir / f"rank-{ranks.rank(self.env)}.jsonl"


def _told_by(env: Environment) -> tuple[float, float]:
    """What a program that saves by itself had told, as far as mlcd knows: this rank's part of what all have done."""
    samples = env.samples_before / max(1, env.world_size - env.servers)
    return (samples / env.local_batch_size if env.local_batch_size else 0.0), samples


def finite(metrics: dict[str, Any]) -> dict[str, float]:
    """Those of the values that are finite numbers."""
    numbers = {}
    for name, value in metrics.items():
        number = value if type(value) is float else _as_float(value)
        if math.isfinite(number):
            numbers[name] = number
    return numbers


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # a tensor of many values raises the last
        return math.nan


_session: Session | None = None


def current() -> Session:
    """The session of this process."""
    return _session or _open()


def _open() -> Session:
    global _session
    _session = Session(read_environment(), child=multiprocessing.parent_process() is not None)
    return _session


@quiet(None)
def _close() -> None:
    if _session is not None:
        _session.reporter.end()


@quiet(None)
def _forked() -> None:
    """The child of a fork begins anew: it has no thread, and its parent's counts are not its own."""
    global _session
    if _session is not None:
        _session.stop.unlisten()
        in_a_group = ranks.distributed() is not None  # then the group is the parent's
        _session = Session(_session.env, child=True, mute=in_a_group)


atexit.register(_close)
os.register_at_fork(after_in_child=_forked)
