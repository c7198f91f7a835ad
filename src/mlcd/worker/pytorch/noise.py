"""Measures the gradient noise of a torch program that knows nothing of it; MLCD_NOISE=1 switches it on.

Every so many steps (see mlcd.worker.noise.schedule) the hooks of a StepSample are put on for one step. What they find comes from the
device some steps later and goes to the NoiseMeter, over the Exchange where there are several ranks. A model that returns
its loss alone cannot be split by samples: in a single process that does not accumulate, nothing is measured then.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from mlcd.worker import ranks
from mlcd.worker.first_optimizer import FirstOptimizer
from mlcd.worker.guard import guard
from mlcd.worker.noise.exchange import Exchange, RankNorms
from mlcd.worker.noise.meter import NoiseMeter
from mlcd.worker.noise.schedule import Schedule
from mlcd.worker.pytorch.norms import Numbers
from mlcd.worker.pytorch.probes import Reading
from mlcd.worker.pytorch.step_sample import StepSample
from mlcd.worker.session import current

_SPLIT_INTERVAL = 64  # a second backward pass is about two thirds of a step: 1 % of 64 steps


@dataclass(frozen=True)
class _Pending:
    """A reading on its way from the device: local and global squared norm, and the scale of the loss."""

    step: int
    numbers: Numbers
    reading: Reading
    samples: float  # of this process in the step


class NoiseWatch:
    """Samples steps and feeds the meter."""

    def __init__(self, meter: NoiseMeter | None = None, schedule: Schedule | None = None) -> None:
        self.meter = meter or NoiseMeter()
        self.schedule = schedule or Schedule()
        self._exchange = Exchange(current(), self.meter)
        self._first = FirstOptimizer()
        self._steps = 0
        self._stepped_at = 0.0
        self._sample: StepSample | None = None
        self._may_split = True
        self._pending: list[_Pending] = []
        self._counted = (0, 0.0)  # optimizer steps and samples at the last reading
        self._scalers = _Scalers()
        current().ticks.append(self._exchange.poll)

    @guard(None)
    def stepped(self, optimizer: Any) -> None:
        """An optimizer has done a step."""
        if not self._first.stepped(optimizer):
            return
        self._steps += 1
        sample, self._sample = self._sample, None
        self._clock(measured=sample is not None)
        if sample is not None:
            self._take(sample)
        if self._pending:
            self._read()
        if self.schedule.due(self._steps + 1):
            self._scalers.watch()
            self._sample = StepSample(self._may_split)

    def _clock(self, measured: bool) -> None:
        now = time.perf_counter()
        if self._stepped_at:
            self.schedule.took(now - self._stepped_at, measured)
        self._stepped_at = now

    def _take(self, sample: StepSample) -> None:
        reading = sample.close()
        probe = sample.probe
        if reading is None or probe is None:
            self._may_split = self._may_split and not (probe is not None and probe.split_failed)
            self.schedule.rest()
            return
        if probe.was_split:
            self.schedule.at_least(_SPLIT_INTERVAL)
        self._may_split = probe.was_split  # a program that accumulates shows its parts by itself
        scale = self._scalers.scale(reading.local_sq_norm)
        numbers = Numbers([reading.local_sq_norm, reading.global_sq_norm, scale])
        self._pending.append(_Pending(self._steps, numbers, reading, self._samples(sample)))

    def _samples(self, sample: StepSample) -> float:
        """Samples of a step, by mlcd's count over the steps since the last reading, or as the model was given them."""
        before, self._counted = self._counted, (self._steps, current().counts.now.samples)
        steps, samples = self._counted[0] - before[0], self._counted[1] - before[1]
        return samples / steps if samples > 0 else float(sample.samples)

    def _read(self) -> None:
        while self._pending:
            numbers = self._pending[0].numbers.read()
            if numbers is None:
                return
            self._use(self._pending.pop(0), *numbers)

    def _use(self, pending: _Pending, local: float, mean: float, scale: float) -> None:
        batch = pending.samples * pending.reading.share
        local, mean = local / scale**2, mean / scale**2
        norms = RankNorms(pending.step, local, mean, batch, batch * pending.reading.groups)
        if ranks.world_size(current().env) > 1:
            self._exchange.put(norms)
        else:
            self.meter.observe([local], mean, norms.local_batch, norms.global_batch)


class _Scalers:
    """Knows by how much the program scales its loss: gradients of half precision are that much larger."""

    def __init__(self) -> None:
        self._last: Callable[[], Any] | None = None
        self._watched = False

    def watch(self) -> None:
        """From now on take note of the gradient scaler that is used."""
        kind = getattr(getattr(torch, "amp", None), "GradScaler", None)
        if self._watched or kind is None:
            return
        self._watched = True
        scale = kind.scale

        def noted_scale(scaler: Any, outputs: Any) -> Any:
            self._last = weakref.ref(scaler)
            return scale(scaler, outputs)

        kind.scale = noted_scale

    def scale(self, like: Any) -> Any:
        """The scale of this step, on the device."""
        scaler = self._last() if self._last is not None else None
        scale = getattr(scaler, "_scale", None)
        return torch.ones_like(like) if scale is None else scale


def hook_noise(optimizer_module: Any) -> None:
    """Measure the noise at the steps of torch.optim.optimizer's optimizers."""
    watches: list[NoiseWatch] = []

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or current().mute:
            return
        if not watches:
            watches.append(NoiseWatch())
        watches[0].stepped(optimizer)

    optimizer_module.register_optimizer_step_post_hook(after_step)
