"""Measures what mlcd's worker adds to a training step, on and off in turn within one process.

    python benchmarks/worker_overhead/measure.py [--pairs 150] [--seconds-per-block 0.15] [--device cuda]

Both ways of being counted are measured: the hooks that need no change in the program, and `mlcd.steps` with `mlcd.report` at
every step. A pair is one block of steps with the worker and one without, in random order; the ratio of each pair is taken, so
that what else the computer does falls on both. Time is the CPU time of the whole process, the reporting thread included; on
a GPU it is the time on the wall, with the GPU idle at both ends of a block. The last column is the worker's own time in a
step, measured without a training around it: it holds on a busy computer, too.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Result:
    """Step time without the worker, and the share that it adds: the median of all pairs with its 95 % interval."""

    model: str
    way: str
    milliseconds: float
    share: float
    low: float
    high: float
    own_microseconds: float

    def __str__(self) -> str:
        return (
            f"{self.model:<22} {self.way:<24} {self.milliseconds:8.2f} ms   "
            f"{self.share:+7.2%}  ({self.low:+.2%} to {self.high:+.2%})   "
            f"own {self.own_microseconds:5.1f} µs = {self.own_microseconds / self.milliseconds / 1000:.3%}"
        )


class Training:
    """A model with a loader that never ends."""

    def __init__(self, model: nn.Module, inputs: tuple[int, ...], batch_size: int, device: str) -> None:
        self.device = device
        data = TensorDataset(torch.randn(batch_size * 32, *inputs), torch.randint(10, (batch_size * 32,)))
        self.loader = DataLoader(data, batch_size=batch_size, shuffle=True)
        self.model = model.to(device)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def batches(self) -> Iterator[Batch]:
        while True:
            yield from self.loader

    def run(
        self, batches: Iterable[Batch], steps: int, report: Callable[[float], None] | None = None
    ) -> float:
        """Seconds for that many steps."""
        began = self._now()
        for number, (x, y) in enumerate(batches, start=1):
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
            loss.backward()
            self.optimizer.step()
            value = loss.item()
            if report is not None:
                report(value)
            if number >= steps:
                break
        return self._now() - began

    def _now(self) -> float:
        if self.device == "cpu":
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()


class Hooks:
    """The hooks of mlcd.worker.torch_hooks, to be put in and taken out."""

    def __init__(self) -> None:
        from torch.optim import optimizer
        from torch.utils.data import dataloader

        from mlcd.worker import torch_hooks

        self._hooks: Any = optimizer._global_optimizer_post_hooks
        self._iterator: Any = dataloader._BaseDataLoaderIter
        self._plain = self._iterator.__next__
        torch_hooks.hook_optimizers(optimizer)
        torch_hooks.hook_loaders(dataloader)
        self._installed = dict(self._hooks)
        self._counted = self._iterator.__next__
        self.off()

    def on(self) -> None:
        self._hooks.update(self._installed)
        self._iterator.__next__ = self._counted

    def off(self) -> None:
        self._hooks.clear()
        self._iterator.__next__ = self._plain


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(MLCD_TASK_ID="overhead", MLCD_PROGRESS_DIR=folder)
        hooks = Hooks()
        for name, training in _trainings(options.device).items():
            print(measure_hooks(name, training, hooks, options.pairs, options.seconds_per_block), flush=True)
        for name, training in _trainings(options.device).items():
            print(measure_loop(name, training, options.pairs, options.seconds_per_block), flush=True)


def measure_hooks(name: str, training: Training, hooks: Hooks, pairs: int, seconds: float) -> Result:
    """Nothing to change in the program."""
    batches = training.batches()

    def block(counted: bool, steps: int) -> float:
        hooks.on() if counted else hooks.off()
        try:
            return training.run(batches, steps)
        finally:
            hooks.off()

    return _compare(name, "hooks", block, pairs, seconds, own_time_of_hooks(training))


def measure_loop(name: str, training: Training, pairs: int, seconds: float) -> Result:
    """The program uses mlcd.steps, and reports its loss at every step."""
    import mlcd

    batches = training.batches()

    def block(counted: bool, steps: int) -> float:
        if not counted:
            return training.run(batches, steps)
        return training.run(mlcd.steps(_borrow(batches)), steps, lambda loss: mlcd.report(loss=loss))

    return _compare(name, "steps and report", block, pairs, seconds, own_time_of_loop(training))


def own_time_of_hooks(training: Training, steps: int = 20_000) -> float:
    """Microseconds that the two hooks take in a step."""
    from mlcd.worker import torch_hooks

    iterator = iter(training.loader)
    batch = next(iterator)
    began = time.process_time()
    for _ in range(steps):
        torch_hooks._after_fetch(iterator, batch)
        torch_hooks._after_step(training.optimizer, (), {})
    return (time.process_time() - began) / steps * 1e6


def own_time_of_loop(training: Training, steps: int = 20_000) -> float:
    """Microseconds that a pass of mlcd.steps and one report take, beyond those of a plain loop."""
    import mlcd

    batches = [next(iter(training.loader))] * steps
    began = time.process_time()
    for _ in batches:
        pass
    plain = time.process_time() - began
    for _ in mlcd.steps(batches):
        mlcd.report(loss=0.5)
    return (time.process_time() - began - 2 * plain) / steps * 1e6


def _borrow(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches, in a generator that may be closed without closing them."""
    while True:
        yield next(batches)


def _compare(
    name: str, way: str, block: Callable[[bool, int], float], pairs: int, seconds: float, own: float
) -> Result:
    warm = block(False, 20)
    steps = max(3, round(seconds / (warm / 20)))
    block(True, steps)
    times = [_pair(block, steps) for _ in range(pairs)]
    shares = [counted / plain - 1.0 for plain, counted in times]
    low, high = _interval(shares)
    milliseconds = statistics.median(plain for plain, _ in times) / steps * 1000
    return Result(name, way, milliseconds, statistics.median(shares), low, high, own)


def _pair(block: Callable[[bool, int], float], steps: int) -> tuple[float, float]:
    order = [False, True]
    random.shuffle(order)
    seen = {counted: block(counted, steps) for counted in order}
    return seen[False], seen[True]


def _interval(values: list[float], rounds: int = 1000) -> tuple[float, float]:
    """The 95 % interval of the median, by bootstrap."""
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(rounds))
    return medians[int(0.025 * rounds)], medians[int(0.975 * rounds)]


def _trainings(device: str) -> dict[str, Training]:
    small = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    large = nn.Sequential(
        nn.Linear(512, 2816),
        nn.ReLU(),
        nn.Linear(2816, 2816),
        nn.ReLU(),
        nn.Linear(2816, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )
    return {
        "small CNN (0.15 M)": Training(small, (1, 8, 8), 64, device),
        "large MLP (10 M)": Training(large, (512,), 64, device),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=150)
    parser.add_argument("--seconds-per-block", type=float, default=0.15)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
