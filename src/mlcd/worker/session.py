"""The one session of this process, and the new one of a forked child."""

from __future__ import annotations

import atexit
import math
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlcd.worker.ranks as ranks
from mlcd.worker.checkpoints import Facts
from mlcd.worker.counts import Count, Counts
from mlcd.worker.environment import Environment, read_environment
from mlcd.worker.first_batches import FirstBatches
from mlcd.worker.guard import guard
from mlcd.worker.reporter import Reporter
from mlcd.worker.saving import SavePoint
from mlcd.worker.sharing import shares_work
from mlcd.worker.stop import Stop
from mlcd.worker.watched_saves import Saves, watch_files

_REMEMBERED = 4096  # counts, so that the count at a save is known: enough for a moment of very short steps
_SURELY_MORE = 0.5  # of what was done before: a program that counts from zero again reports less at first; a saved count may be a little less


class Session:
    """Everything that mlcd knows in this process.

    A child of the program (a data loader's worker, say) reports nothing, unless it starts a process group
    of its own: then it is a rank that the program has spawned.
    """

    def __init__(self, env: Environment, child: bool = False, mute: bool = False) -> None:
        self.env = env
        self.child = child
        self.mute = mute
        self.active = env.started_by_mlcd and not mute
        saves = self.active and not child and env.saves_to is not None
        self.counts = Counts(env.local_batch_size, _REMEMBERED if saves else 0)
        self.stop = Stop(env, self.counts, lambda: self.alone)
        self.save_point = SavePoint(env, self.counts)
        # Done by the reporter's thread on every round.
        self.ticks: list[Callable[[], None]] = [self.stop.poll]
        self.before_end: list[Callable[[], None]] = []
        self.first_batches = FirstBatches() if self.active and env.world_size - env.servers > 1 else None
        self.shares = False  # whether the program takes its own part of the samples
        self._shared = False  # whether anything has spoken for sharing the work
        self.reporter = Reporter(self._file, self._counted, self._tick, self._facts)
        self.saves = Saves(env.saves_to, self._saved) if saves and env.saves_to is not None else None
        self.metrics: dict[str, float] = {}  # newest values
        self.metrics_before: dict[str, float] = {}  # of the checkpoint it goes on from, alike on all ranks
        self.steps_before = 0
        self._ahead = (0, 0.0)  # steps and samples of this rank beyond the checkpoint, before this process
        self._ending = False
        # Step and samples reported before the checkpoint that it continues from.
        self.reported_before = _reported_by(env)
        self._goes_on: dict[str, bool] = {}  # whether it counts on from there, or from zero again

    @property
    def alone(self) -> bool:
        """Whether it trains, and as one of several ranks that each train the same."""
        return not self.shares and self.counts.now.steps > 0 and not self._has_shared()

    def start(self) -> None:
        """Begin to report, if mlcd is there to read it."""
        self._has_shared()
        in_group = ranks.in_group()
        if self.env.started_by_mlcd and not self.mute and (in_group or not self.child):
            self.reporter.start()
            if self.saves is not None and ranks.rank(self.env) == 0:
                self.saves.start()

    def end(self) -> None:
        """Report everything that is still to report."""
        self._ending = True
        for act in self.before_end:
            act()
        if self.saves is not None:
            self.saves.end()
        self.reporter.end()

    def report(self, step: float | None, samples: float | None, metrics: dict[str, Any]) -> None:
        """Take in what the program reports."""
        if step is not None or samples is not None:
            before_step, before_samples = self.reported_before
            self.counts.report(self._since("step", step, before_step), self._since("samples", samples, before_samples))
        numbers = numbers_of(metrics)
        self.metrics.update({name: value for name, value in numbers.items() if math.isfinite(value)})
        self.reporter.add_metrics(_as_json(numbers), step)
        target = self.env.target
        if target and target.metric in numbers and target.reached(numbers[target.metric]):
            self.stop.wanted = True
        if not self.reporter.started:
            self.start()

    def count_after(self, reported: tuple[float, float]) -> None:
        """The program continues from a checkpoint, before which it had reported this much."""
        self.reported_before = reported
        self._goes_on = {}

    def continue_from(self, facts: Facts) -> None:
        """The program goes on from a state that is newer than the checkpoint that it was started with."""
        samples = (facts.samples - self.env.samples_before) / ranks.world_size(self.env)
        self._ahead = (max(0, facts.steps - self.steps_before), max(0.0, samples))
        self.stop.samples_before = facts.samples
        self.steps_before = facts.steps
        self.count_after(facts.reported)
        self.start()  # where nothing is left to do, nobody else would

    def _has_shared(self) -> bool:
        """Whether anything speaks for sharing the work, or did: programs end their groups before they end."""
        self._shared = self._shared or shares_work(self.env)
        return self._shared

    def _counted(self) -> Count:
        """Since the checkpoint that the program was started with, once it makes steps of its own or ends without any."""
        now = self.counts.now
        if not (now.steps or self._ending):
            return now
        steps, samples = self._ahead
        return Count(now.t or time.time(), now.steps + steps, now.samples + samples)

    def _since(self, name: str, total: float | None, before: float) -> float | None:
        """What was done since the checkpoint; a program goes on counting from there or begins at zero, as it does at first."""
        if total is None:
            return None
        goes_on = self._goes_on.setdefault(name, float(total) >= _SURELY_MORE * before)
        return float(total) - before if goes_on else float(total)

    def _saved(self, changed_at: float) -> None:
        """The program has saved to its own folder: how much had the job done then?"""
        count = self.counts.at(changed_at)
        if count is not None:
            self.reporter.add_save(changed_at, self.stop.total_of(count.samples))

    def _facts(self) -> dict[str, Any]:
        """What every line says beside the counts."""
        if self.alone:
            return {"alone": True}
        digest = "" if self.first_batches is None or self.shares else self.first_batches.digest
        return {**({"data": digest} if digest else {}), **self._saving()}

    def _saving(self) -> dict[str, Any]:
        """How often the program saves, where it goes by what mlcd says."""
        saving = self.save_point.saving
        told = saving.asked and saving.every_seconds > 0
        times = (saving.every_seconds, saving.takes_seconds, saving.loss_seconds)
        return {"saving": [float(f"{seconds:.4g}") for seconds in times]} if told else {}

    def _tick(self) -> None:
        for tick in self.ticks:
            tick()

    def _file(self) -> Path | None:
        if self.env.progress_dir is None or (self.child and not ranks.in_group()):
            return None
        return self.env.progress_dir / f"rank-{ranks.rank(self.env)}.jsonl"


def _reported_by(env: Environment) -> tuple[float, float]:
    """What a program that saves by itself had reported, as far as mlcd knows: this rank's share of all samples."""
    samples = env.samples_before / max(1, env.world_size - env.servers)
    return (samples / env.local_batch_size if env.local_batch_size else 0.0), samples


def numbers_of(metrics: dict[str, Any]) -> dict[str, float]:
    """Those of the values that are numbers, nan and infinity among them."""
    found = {name: value if type(value) is float else _as_float(value) for name, value in metrics.items()}
    return {name: value for name, value in found.items() if value is not None}


def _as_float(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # a tensor of many values raises the last
        return None


def _as_json(numbers: dict[str, float]) -> dict[str, float | str]:
    """JSON cannot hold values that are not finite: they become 'nan', 'inf' and '-inf'."""
    return {name: value if math.isfinite(value) else str(value) for name, value in numbers.items()}


_session: Session | None = None


def current() -> Session:
    """The session of this process."""
    return _session or _open()


def _open() -> Session:
    global _session
    _session = Session(read_environment(), child=multiprocessing.parent_process() is not None)
    if _session.saves is not None and _session.env.saves_to is not None:
        watch_files(_session.env.saves_to, lambda: current().counts.mark_save())
    return _session


@guard(None)
def _close() -> None:
    if _session is not None:
        _session.end()


@guard(None)
def _forked() -> None:
    """The child of a fork begins anew: it has no thread, and its parent's counts are not its own."""
    global _session
    if _session is not None:
        _session.stop.restore_sigterm()
        in_a_group = ranks.distributed() is not None  # then the group is the parent's
        ranks.forget_group()
        _session = Session(_session.env, child=True, mute=in_a_group)


atexit.register(_close)
os.register_at_fork(after_in_child=_forked)
