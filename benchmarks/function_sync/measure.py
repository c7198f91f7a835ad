"""Communication time per iteration: ours, Siren's and Cirrus's ways, gloo and a memory copy, side by side.

All systems work on the same gradients in the same processes, one after the other in a changing order, in one run.
A time is that of the slowest worker, from when all have begun; shown is the median over the rounds.

    python benchmarks/function_sync/measure.py --workers 2 4 8 16 --millions 11 66 --rounds 5
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from plot import draw
from systems import STEPS, Places, cpu_seconds, open_system, start_places

from mlcd.sync import join

SYSTEMS = (
    *("ours, shm, no copies", "ours, shm", "ours, 1 Valkey", "ours, 2 Valkeys"),
    *("Siren, S3", "Siren, folder", "Cirrus", "gloo", "memory copy"),
)
_PATTERN = np.random.default_rng(0).random(1_000_003, np.float32)
Seen = dict[str, list[dict[str, float]]]  # of each system, for each round the seconds in all and of each step


def main() -> None:
    options = _options()
    if "gloo" in options.systems:
        import torch  # noqa: F401  # once, before the workers are forked
    options.out.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    for millions in options.millions:
        for workers in options.workers:
            results.append(measure(workers, millions, options))
            show(results[-1])
            (options.out / "results.json").write_text(json.dumps(results, indent=1))
            draw(results, options.out / "times.html")


def measure(workers: int, millions: float, options: argparse.Namespace) -> dict[str, Any]:
    """All systems at one number of workers and one size."""
    parameters = int(millions * 1e6)
    with start_places(workers, parameters) as places:
        pipes, processes = [], []
        for rank in range(workers):
            mine, its = multiprocessing.Pipe()
            arguments = (rank, places, parameters, options.systems, options.rounds, options.most_s, its)
            processes.append(multiprocessing.Process(target=work, args=arguments, daemon=True))
            processes[-1].start()
            pipes.append(mine)
        seen = [pipe.recv() for pipe in pipes]
        for process in processes:
            process.join(10)
            process.kill()
    return {
        "workers": workers,
        "millions": millions,
        "systems": {name: _joined(seen, name) for name in options.systems},
    }


def work(
    rank: int, places: Places, parameters: int, names: list[str], rounds: int, most_s: float, pipe: Any
) -> None:
    """One worker: every system in every round, except what has taken too long already."""
    os.environ["OMP_NUM_THREADS"] = "1"
    meeting = join(f"shm://{places.shm_name}", rank, places.world_size, name="meeting", timeout_s=1800)
    systems = {name: open_system(name, places, rank, parameters) for name in names}
    private = np.empty(parameters, np.float32)
    seen: Seen = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            spent_s = meeting.all_gather(np.array(sum(each["all"] for each in seen[name]))).max()
            if spent_s < most_s:
                gradient = getattr(systems[name], "gradient", None)
                gradient = private if gradient is None else gradient
                _fill(gradient, rank)
                seen[name].append(
                    _one(systems[name], gradient, meeting, places.server_pids if rank == 0 else ())
                )
                _check(name, gradient, places.world_size)
    pipe.send(seen)
    meeting.barrier()


def _one(system: Any, gradient: np.ndarray, meeting: Any, servers: tuple[int, ...]) -> dict[str, float]:
    pids = (*servers, os.getpid())
    before = dict(system.steps)
    cpu_before_s = cpu_seconds(pids)
    meeting.barrier()
    began_s = time.perf_counter()
    system.all_reduce(gradient)
    ended_s = time.perf_counter()
    meeting.barrier()
    seconds = {"all": ended_s - began_s, "cpu": cpu_seconds(pids) - cpu_before_s}
    return seconds | {step: spent - before[step] for step, spent in system.steps.items()}


def _fill(gradient: np.ndarray, rank: int) -> None:
    for start in range(0, gradient.size, _PATTERN.size):
        part = gradient[start : start + _PATTERN.size]
        np.multiply(_PATTERN[: part.size], rank + 1, out=part)


def _check(name: str, gradient: np.ndarray, workers: int) -> None:
    if name != "memory copy":
        for start in range(0, gradient.size, _PATTERN.size):
            part = gradient[start : start + _PATTERN.size : 997]
            expected = _PATTERN[::997][: part.size] * (workers * (workers + 1) / 2)
            np.testing.assert_allclose(part, expected, rtol=1e-5)


def _joined(seen: list[Seen], name: str) -> dict[str, Any]:
    """The slowest worker's time and the mean time of each step, as medians over the rounds; the first is for warming up."""
    rounds = list(zip(*(each[name] for each in seen), strict=True))
    counted = rounds[1:] or rounds
    times = [max(worker["all"] for worker in each) for each in counted]
    steps = [step for step in rounds[0][0] if step not in ("all", "cpu")]
    return {
        "median_s": statistics.median(times),
        "least_s": min(times),
        "most_s": max(times),
        "cpu_s": statistics.median(sum(worker["cpu"] for worker in each) for each in counted),
        "rounds": len(counted),
        "warm": len(rounds) > 1,
        "steps_s": {
            step: statistics.median(statistics.mean(worker[step] for worker in each) for each in counted)
            for step in steps
        },
    }


def show(result: dict[str, Any]) -> None:
    """A table of one configuration."""
    ours = result["systems"].get("ours, 1 Valkey", {}).get("median_s")
    print(f"\n{result['workers']} workers, {result['millions']:g} M parameters", flush=True)
    print("| | all (s) | range | × of 1 Valkey | CPU (s) | " + " | ".join(STEPS) + " |\n|---|" + "---|" * 8)
    for name, seen in result["systems"].items():
        steps = {
            ("UL-shard" if step == "UL-grad" else step): spent for step, spent in seen["steps_s"].items()
        }
        cells = [f"{steps[step]:.3f}" if step in steps else "" for step in STEPS]
        ratio = f"{seen['median_s'] / ours:.2f}" if ours else ""
        spread = f"{seen['least_s']:.3f}–{seen['most_s']:.3f}, {seen['rounds']}"
        print(
            f"| {name} | {seen['median_s']:.3f} | {spread} | {ratio} | {seen['cpu_s']:.3f} | "
            + " | ".join(cells)
            + " |",
            flush=True,
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--millions", type=float, nargs="+", default=[11, 66], help="parameters, float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--most-s", type=float, default=60, help="no further round of a system that has taken so long"
    )
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--out", type=Path, default=Path("function_sync_results"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
