"""Measures what mlcd's worker adds to a training step, on and off at random within one training.

    python benchmarks/worker_overhead/measure.py [--steps 4000] [--device cuda] [--block 200]

Both ways of being counted are measured: the hooks that need no change in the program, and `mlcd.steps` with `mlcd.report` at
every step. Each step is done with or without the worker, by the toss of a coin, and timed from before its batch is fetched to
after its end, so that whatever else the computer does falls on both kinds. Compared are the medians of the two kinds.

A worker that is on at every other step is found cold by each of them, which none is that is always on. With --block it is on for
so many steps and off for as many, by the toss of a coin which comes first; the first steps of each block do not count, and
compared are the medians of the two blocks of each pair.

The reporting thread runs all the while; what it takes is measured by itself and added. The last column is the worker's own
time in a step when nothing else runs in between: the least that it can take, with everything in the processor's cache.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data import dataloader as loaders

import mlcd
from mlcd.worker.pytorch import hooks
from mlcd.worker.session import current

Batch = tuple[Tensor, Tensor]
LINES_PER_SECOND = 2.0
COLD_STEPS = 20  # of each block


@dataclass(frozen=True)
class Way:
    """How a step gets its batch and tells its loss, and what is switched on around it."""

    fetch: Callable[[], Batch]
    report: Callable[[float], None]
    switch: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True)
class Result:
    """Step time without the worker, and what it adds, with its 95 % interval."""

    name: str
    milliseconds: float
    share: float
    low: float
    high: float
    own_microseconds: float

    def __str__(self) -> str:
        own = self.own_microseconds / self.milliseconds / 1000
        return (
            f"{self.name:<38} {self.milliseconds:7.2f} ms   {self.share:+.2%} ({self.low:+.2%} to {self.high:+.2%})"
            f"   own {self.own_microseconds:.1f} µs = {own:.3%}"
        )


Compare = Callable[[str, "Training", Way, Way, int, float], Result]


class Training:
    """A model with batches that never end."""

    def __init__(self, model: nn.Module, inputs: tuple[int, ...], device: str) -> None:
        data = TensorDataset(torch.randn(64 * 64, *inputs), torch.randint(10, (64 * 64,)))
        self.loader = DataLoader(data, batch_size=64, shuffle=True)
        self.model = model.to(device)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        self.device = device

    def timed_step(self, way: Way) -> float:
        """Seconds of one step; reading the loss waits for the GPU."""
        with way.switch():
            began = time.perf_counter()
            x, y = way.fetch()
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
            loss.backward()
            self.optimizer.step()
            way.report(loss.item())
            return time.perf_counter() - began


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(MLCD_TASK_ID="overhead", MLCD_PROGRESS_DIR=folder)
        plain_next, counted_next = _install_hooks()
        for measure in (
            measure_hooks,
            measure_loop,
        ):  # in this order: a loop that counts makes the hooks rest
            for name, training in _trainings(options.device).items():
                compare = partial(_compare_blocks, block=options.block) if options.block > 1 else _compare
                print(measure(name, training, options.steps, plain_next, counted_next, compare), flush=True)
        print(f"reporting thread: {thread_share():.4%} of the time")
        current().reporter.end()  # before its folder goes


def measure_hooks(
    name: str, training: Training, steps: int, plain_next: Any, counted_next: Any, compare: Compare
) -> Result:
    """Nothing to change in the program."""
    endless = _Endless(training.loader)
    hook = dict(optimizers._global_optimizer_post_hooks)
    optimizers._global_optimizer_post_hooks.clear()

    @contextmanager
    def hooked() -> Iterator[None]:
        optimizers._global_optimizer_post_hooks.update(hook)
        yield
        optimizers._global_optimizer_post_hooks.clear()

    plain = Way(lambda: endless.next(plain_next), _tell_no_one)
    counted = Way(lambda: endless.next(counted_next), _tell_no_one, hooked)
    try:
        own = own_time(endless.own, lambda: hooks._after_step(training.optimizer, (), {}))
        return compare(f"{name}, hooks", training, plain, counted, steps, own)
    finally:
        optimizers._global_optimizer_post_hooks.update(hook)


def measure_loop(
    name: str, training: Training, steps: int, plain_next: Any, counted_next: Any, compare: Compare
) -> Result:
    """The program uses mlcd.steps, and reports its loss at every step."""
    optimizers._global_optimizer_post_hooks.clear()
    endless = _Endless(training.loader)
    batches = iter(lambda: endless.next(plain_next), None)
    loop = iter(mlcd.steps(batches))
    plain = Way(lambda: next(batches), _tell_no_one)
    counted = Way(lambda: next(loop), lambda loss: mlcd.report(loss=loss))
    batch = next(batches)
    same = iter(mlcd.steps(iter(lambda: batch, None)))
    own = own_time(lambda: next(same), lambda: mlcd.report(loss=0.5))
    return compare(f"{name}, steps and report", training, plain, counted, steps, own)


def own_time(*calls: Callable[[], Any], rounds: int = 20_000) -> float:
    """Microseconds that the calls take together, with nothing in between."""
    began = time.process_time()
    for _ in range(rounds):
        for call in calls:
            call()
    return (time.process_time() - began) / rounds * 1e6


def thread_share(rounds: int = 500) -> float:
    """The share of the time that the reporting thread takes, at its most lines a second."""
    session = current()
    began = time.perf_counter()
    for _ in range(rounds):
        session.counts.add_loop(1, 1.0)
        session.reporter._next = 0.0
        session.reporter._round()
    return (time.perf_counter() - began) / rounds * LINES_PER_SECOND


class _Endless:
    """The batches of a loader over and over, fetched by the function that is given."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._iterator = iter(loader)
        self._batch = next(self._iterator)

    def next(self, fetch: Any) -> Batch:
        try:
            return fetch(self._iterator)  # type: ignore[no-any-return]
        except StopIteration:
            self._iterator = iter(self._loader)
            return fetch(self._iterator)  # type: ignore[no-any-return]

    def own(self) -> None:
        hooks._after_fetch(self._iterator, self._batch)


def _install_hooks() -> tuple[Any, Any]:
    """The loaders' way to fetch a batch without and with counting; the loaders themselves keep the plain one."""
    iterator: Any = loaders._BaseDataLoaderIter
    plain = iterator.__next__
    hooks.hook_optimizers(optimizers)
    hooks.hook_loaders(loaders)
    counted = iterator.__next__
    iterator.__next__ = plain
    return plain, counted


def _tell_no_one(loss: float) -> None:
    return


def _compare(name: str, training: Training, plain: Way, counted: Way, steps: int, own: float) -> Result:
    for way in (plain, counted) * 20:
        training.timed_step(way)
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(steps):
        with_worker = random.random() < 0.5
        times[with_worker].append(training.timed_step(counted if with_worker else plain))
    low, high = _interval(times[False], times[True])
    share = statistics.median(times[True]) / statistics.median(times[False]) - 1
    return Result(name, statistics.median(times[False]) * 1000, share, low, high, own)


def _compare_blocks(
    name: str, training: Training, plain: Way, counted: Way, steps: int, own: float, block: int
) -> Result:
    """The same in blocks: each pair of them gives one ratio, and these are averaged."""
    shares, base = [], []
    for _ in range(max(2, steps // (2 * block))):
        order = random.sample((False, True), 2)
        medians = {on: _block_median(training, counted if on else plain, block) for on in order}
        shares.append(medians[True] / medians[False] - 1)
        base.append(medians[False])
    means = sorted(statistics.fmean(random.choices(shares, k=len(shares))) for _ in range(1000))
    milliseconds = statistics.median(base) * 1000
    return Result(name, milliseconds, statistics.fmean(shares), means[25], means[974], own)


def _block_median(training: Training, way: Way, block: int) -> float:
    times = [training.timed_step(way) for _ in range(block)]
    return statistics.median(times[COLD_STEPS:])


def _interval(plain: list[float], counted: list[float], rounds: int = 400) -> tuple[float, float]:
    """The 95 % interval of the ratio of the medians less one, by bootstrap."""
    shares = sorted(_median_of_some(counted) / _median_of_some(plain) - 1 for _ in range(rounds))
    return shares[int(0.025 * rounds)], shares[int(0.975 * rounds)]


def _median_of_some(values: list[float]) -> float:
    return statistics.median(random.choices(values, k=len(values)))


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
        "small CNN (0.15 M)": Training(small, (1, 8, 8), device),
        "large MLP (10 M)": Training(large, (512,), device),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--block", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
