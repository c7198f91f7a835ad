"""What measuring the gradient noise costs: the same training with and without it, taking turns.

    PYTHONPATH=src python3 benchmarks/gradient_noise/run.py [--device cuda] [--seconds 30] [--json FILE]

Steps without measuring and sampled steps take turns, so that both meet the same ups and downs of the machine. The overhead is
hook + (sampled - bare) / interval, as a share of the bare step, by medians over the rounds; the hook is what a step pays that is
not sampled, timed by itself since it is microseconds; the interval is the one that the schedule of mlcd has come to by itself. A GPU is waited for after every timed step; on a CPU the
seconds are those that the process computed, on one thread, so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mlcd.worker.noise import NoiseMeter
from mlcd.worker.noise.schedule import Schedule
from mlcd.worker.pytorch.noise import NoiseWatch


@dataclass(frozen=True)
class Round:
    """Seconds of a step of each kind."""

    bare: float
    sampled: float


class OnDemand(Schedule):
    """Samples when told to; the interval is still found as ever."""

    next_is_sampled = False

    def due(self, step: int) -> bool:
        return self.next_is_sampled


CASES = ("mlp", "cnn", "transformer", "accumulation", "ddp")


def main() -> None:
    options = read_options()
    if options.case:
        print(json.dumps(run_case(options.case, options.device, options.seconds)), flush=True)
        return
    results = []
    for case in CASES:
        results.append(run_apart(case, options))
        print(table_row(results[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(options.device), "cases": results}, indent=1))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each case")
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def run_apart(case: str, options: argparse.Namespace) -> dict[str, Any]:
    """Each case in a process of its own; that with ranks in two, or on GPUs in one for each."""
    ranks = 1 if case != "ddp" else 2 if options.device == "cpu" else torch.cuda.device_count()
    command = [
        sys.executable,
        __file__,
        "--case",
        case,
        "--device",
        options.device,
        "--seconds",
        str(options.seconds),
    ]
    env = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
    started = [
        subprocess.Popen(
            command,
            env={**env, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    outputs = [process.communicate()[0] for process in started]
    return dict(json.loads(outputs[0].splitlines()[-1]))


def run_case(case: str, device: str, seconds: float) -> dict[str, Any]:
    torch.manual_seed(0)
    if case == "ddp":
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["RANK"]))
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
    model, batch, passes = build(case, device)
    trained = nn.parallel.DistributedDataParallel(model) if case == "ddp" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    step = make_step(trained, optimizer, batch, passes)
    told: list[Any] = []
    watch = NoiseWatch(NoiseMeter(told.append), OnDemand())
    rounds = measure(step, optimizer, watch, seconds, device)
    interval_steps = watch.schedule.interval
    result = summary(case, model, rounds, interval_steps, hook_cost(watch, optimizer))
    if case == "ddp":
        dist.destroy_process_group()
    return {**result, "readings": len(told)}


def build(case: str, device: str) -> tuple[nn.Module, tuple[Tensor, Tensor], int]:
    """A model of 10 million parameters or more, a batch, and the backward passes to a step."""
    big = device == "cuda"
    if case in ("mlp", "ddp"):
        return perceptron().to(device), vectors(512 if big else 64, device), 1
    if case == "cnn":
        return convolutions().to(device), images(256 if big else 8, device), 1
    if case == "accumulation":
        return perceptron().to(device), vectors(256 if big else 32, device), 4
    return Transformer().to(device), words(64 if big else 2, device), 1


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(1024, 2560),
        nn.ReLU(),
        nn.Linear(2560, 2560),
        nn.ReLU(),
        nn.Linear(2560, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )


def convolutions() -> nn.Module:
    """A plain stack with batch norm and the widths of a ResNet-18."""
    layers: list[nn.Module] = []
    for inputs, outputs, stride in [(3, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
                                    (256, 512, 2), (512, 512, 1), (512, 512, 1), (512, 512, 1), (512, 512, 1)]:  # fmt: skip
        layers += [nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Transformer(nn.Module):
    def __init__(self, width: int = 384, vocabulary: int = 8192) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 6, 4 * width, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, numbers: Tensor) -> Tensor:
        return self.out(self.layers(self.embed(numbers)).mean(1))


def vectors(samples: int, device: str) -> tuple[Tensor, Tensor]:
    return torch.randn(samples, 1024, device=device), torch.randint(0, 10, (samples,), device=device)


def images(samples: int, device: str) -> tuple[Tensor, Tensor]:
    return torch.randn(samples, 3, 32, 32, device=device), torch.randint(0, 10, (samples,), device=device)


def words(samples: int, device: str) -> tuple[Tensor, Tensor]:
    numbers = torch.randint(0, 8192, (samples, 128), device=device)
    return numbers, numbers[:, 0]


def make_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, Tensor], passes: int
) -> Callable[[], None]:
    inputs, targets = batch

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(passes):
            (nn.functional.cross_entropy(model(inputs), targets) / passes).backward()
        optimizer.step()

    return step


def measure(
    step: Callable[[], None], optimizer: torch.optim.Optimizer, watch: NoiseWatch, seconds: float, device: str
) -> list[Round]:
    """Rounds of two steps each, bare and sampled, in changing order."""
    hook_on = [False]
    optimizer.register_step_post_hook(lambda one, args, kwargs: watch.stepped(one) if hook_on[0] else None)
    rounds: list[Round] = []
    ends = time.perf_counter() + seconds
    while going_on(time.perf_counter() < ends or len(rounds) < 12):
        kinds = ["bare", "sampled"]
        random.Random(len(rounds)).shuffle(kinds)
        rounds.append(Round(**{kind: timed(kind, step, watch, hook_on, device) for kind in kinds}))
    return rounds[4:]  # the first ones pay for what is set up once


def timed(kind: str, step: Callable[[], None], watch: NoiseWatch, hook_on: list[bool], device: str) -> float:
    """Seconds of one step; two before it are not timed: the watch sees how long one takes, and puts its hooks on."""
    hook_on[0] = kind == "sampled"
    watch._stepped_at = 0.0  # its clock must not run through steps that it did not see
    step()
    watch.schedule.next_is_sampled = kind == "sampled"
    step()
    watch.schedule.next_is_sampled = False
    synchronize(device)
    clock = time.perf_counter if device == "cuda" else time.process_time
    began = clock()
    step()
    synchronize(device)
    return clock() - began


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def going_on(wanted: bool) -> bool:
    """Whether rank 0 wants another pair."""
    if not dist.is_initialized():
        return wanted
    flag = torch.tensor(float(wanted), device="cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.broadcast(flag, 0)
    return bool(flag.item())


def hook_cost(watch: NoiseWatch, optimizer: torch.optim.Optimizer) -> float:
    """Seconds that a step pays which is not sampled."""
    began = time.process_time()
    for _ in range(10_000):
        watch.stepped(optimizer)
    return (time.process_time() - began) / 10_000


def summary(
    case: str, model: nn.Module, rounds: list[Round], interval_steps: int, hook_seconds: float
) -> dict[str, Any]:
    low, high = interval(rounds, interval_steps, hook_seconds)
    return {
        "case": case,
        "ranks": int(os.environ.get("WORLD_SIZE", "1")),
        "parameters": sum(one.numel() for one in model.parameters()),
        "interval_steps": interval_steps,
        "step_ms": 1000 * statistics.median(one.bare for one in rounds),
        "sampled_extra_ms": 1000 * statistics.median(one.sampled - one.bare for one in rounds),
        "hook_microseconds": 1e6 * hook_seconds,
        "rounds": len(rounds),
        "overhead": overhead(rounds, interval_steps, hook_seconds),
        "overhead_low": low,
        "overhead_high": high,
    }


def overhead(rounds: list[Round], interval_steps: int, hook_seconds: float) -> float:
    """Share of the step time: what every step pays, and what a sampled one pays divided by the interval."""
    bare = statistics.median(one.bare for one in rounds)
    extra = statistics.median(one.sampled - one.bare for one in rounds)
    return (hook_seconds + extra / interval_steps) / bare


def interval(rounds: list[Round], interval_steps: int, hook_seconds: float) -> tuple[float, float]:
    """The 95 % interval of the overhead, by bootstrapping the rounds."""
    chance = random.Random(0)
    found = sorted(overhead(chance.choices(rounds, k=len(rounds)), interval_steps, hook_seconds) for _ in range(1000))
    return found[25], found[974]


def table_row(result: dict[str, Any]) -> str:
    return (
        f"| {result['case']} | {result['parameters'] / 1e6:.1f} M | {result['ranks']} | {result['step_ms']:.1f} ms "
        f"| {result['sampled_extra_ms']:.1f} ms | {result['interval_steps']} | {100 * result['overhead']:+.2f} % "
        f"({100 * result['overhead_low']:+.2f} to {100 * result['overhead_high']:+.2f}) | {result['rounds']} |"
    )


def machine(device: str) -> str:
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {os.cpu_count()} cores"
    return f"{name}, torch {torch.__version__}"


if __name__ == "__main__":
    main()
