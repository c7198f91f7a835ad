"""Communication time per iteration: ours, LambdaML's, Siren's and Cirrus's ways, gloo and a memory copy, side by side.

All systems work on the same gradients in the same processes, one after the other in a changing order, in one run.
A time is that of the slowest worker, from when all have begun; shown is the median over the rounds.

    python benchmarks/function_sync/measure.py --workers 2 4 8 16 --millions 11 66 --rounds 5
    python benchmarks/function_sync/measure.py --links …       as root: every function and server behind a link of its own
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import time
from contextlib import nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from links import Network, enter, shaped_network
from places import Places, Wires, start_places
from plot import draw
from systems import STEPS, busy_seconds, cpu_seconds, open_system, servers_of, valkeys_of

from mlcd.sync import join

_VALKEYS = ("ours, 1 Valkey", "ours, 2 Valkeys", "ours, 4 Valkeys", "ours, 8 Valkeys")
_OTHERS = ("LambdaML, S3", "LambdaML, 4 Valkeys", "Siren, S3", "Cirrus", "Cirrus, pipelined", "gloo")
LINKED = (*_VALKEYS, *_OTHERS)  # what passes through links
SYSTEMS = ("ours, shm, no copies", "ours, shm", *_VALKEYS, "Siren, folder", *_OTHERS, "memory copy")
_PATTERN = np.random.default_rng(0).random(1_000_003, np.float32)
Seen = dict[str, list[dict[str, float]]]  # of each system, for each round the seconds in all and of each step


def main() -> None:
    options = _options()
    options.systems = options.systems or list(LINKED if options.links else SYSTEMS)
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
    stores = max(map(valkeys_of, options.systems))
    speeds = (options.worker_mbit, options.server_mbit, options.cirrus_mbit or options.server_mbit)
    wires = Wires(*(speed / options.scale for speed in speeds))
    with (
        shaped_network() if options.links else nullcontext() as network,
        start_places(workers, parameters, stores, network, wires) as places,
    ):
        seen = _run_workers(places, parameters, options)
    return {
        "workers": workers,
        "millions": millions,
        "server_usd": options.server_usd,
        "systems": {name: _joined(seen, name, options.warm) for name in options.systems},
    }


def _run_workers(places: Places, parameters: int, options: argparse.Namespace) -> list[Seen]:
    pipes, processes = [], []
    for rank in range(places.world_size):
        mine, its = multiprocessing.Pipe()
        arguments = (rank, places, parameters, options, its)
        processes.append(multiprocessing.Process(target=work, args=arguments, daemon=True))
        processes[-1].start()
        its.close()
        pipes.append(mine)
    try:
        seen = [_result(rank, pipe, processes) for rank, pipe in enumerate(pipes)]
        for process in processes:
            process.join(10)
        return seen
    finally:
        for process in processes:
            process.kill()


def _result(rank: int, pipe: Connection, processes: list[multiprocessing.Process]) -> Seen:
    """What a worker has seen; when any of them fails, the others would wait for it for ever."""
    while not pipe.poll(0.2):
        for number, process in enumerate(processes):
            if process.exitcode:
                raise SystemExit(f"Worker {number} ended with exit code {process.exitcode}: see above.")
    try:
        seen: Seen = pipe.recv()
    except EOFError:
        raise SystemExit(f"Worker {rank} ended without a result: see above.") from None
    return seen


def work(rank: int, places: Places, parameters: int, options: argparse.Namespace, pipe: Any) -> None:
    """One worker: every system in every round, except what has taken too long already."""
    os.environ["OMP_NUM_THREADS"] = "1"
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if (host := places.hosts[rank]) is not None:
        enter(host.namespace)
    names: list[str] = options.systems
    meeting = join(f"shm://{places.shm_name}", rank, places.world_size, name="meeting", timeout_s=1800)
    systems = {name: open_system(name, places, rank, parameters) for name in names}
    private = np.empty(parameters, np.float32)
    seen: Seen = {name: [] for name in names}
    for turn in range(1 - options.warm, options.rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            spent_s = meeting.all_gather(np.array(sum(each["all"] for each in seen[name]))).max()
            if spent_s < options.most_s:
                gradient = getattr(systems[name], "gradient", None)
                gradient = private if gradient is None else gradient
                _fill(gradient, rank)
                seen[name].append(_one(systems[name], gradient, meeting, places, rank))
                _check(name, gradient, places.world_size)
    pipe.send(seen)
    meeting.barrier()


def _one(system: Any, gradient: np.ndarray, meeting: Any, places: Places, rank: int) -> dict[str, float]:
    pids = (*(places.server_pids if rank == 0 else ()), os.getpid())
    before = dict(system.steps)
    meeting.barrier()
    carried = _carried(places.network if rank == 0 else None)
    cpu_before_s, busy_before_s = cpu_seconds(pids), busy_seconds()
    meeting.barrier()
    began_s = time.perf_counter()
    system.all_reduce(gradient)
    ended_s = time.perf_counter()
    meeting.barrier()
    cores_s = (os.cpu_count() or 1) * (time.perf_counter() - began_s)
    seconds = {"all": ended_s - began_s, "cpu": cpu_seconds(pids) - cpu_before_s}
    seconds["busy_share"] = (busy_seconds() - busy_before_s) / cores_s
    after = _carried(places.network if rank == 0 else None)
    seconds["fullest_mb"] = max((after[link] - carried[link] for link in after), default=0) / 1e6
    return seconds | {step: spent - before[step] for step, spent in system.steps.items()}


def _carried(network: Network | None) -> dict[str, int]:
    return network.carried() if network is not None else {}


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


def _joined(seen: list[Seen], name: str, warm: bool) -> dict[str, Any]:
    """The slowest worker's time and the mean time of each step, as medians over the rounds; the first may be for warming up."""
    rounds = list(zip(*(each[name] for each in seen), strict=True))
    counted = (rounds[1:] if warm else rounds) or rounds
    times = [max(worker["all"] for worker in each) for each in counted]
    steps = [step for step in rounds[0][0] if step in (*STEPS, "UL-grad")]
    return {
        "median_s": statistics.median(times),
        "least_s": min(times),
        "most_s": max(times),
        "cpu_s": statistics.median(sum(worker["cpu"] for worker in each) for each in counted),
        "own_share": statistics.median(
            sum(worker["cpu"] for worker in each) / (os.cpu_count() or 1) / max(worker["all"] for worker in each)
            for each in counted
        ),
        "busy_share": statistics.median(each[0]["busy_share"] for each in counted),
        "fullest_mb": statistics.median(each[0]["fullest_mb"] for each in counted),
        "rounds": len(counted),
        "warm": len(rounds) > len(counted),
        "steps_s": {
            step: statistics.median(statistics.mean(worker[step] for worker in each) for each in counted)
            for step in steps
        },
    }


def show(result: dict[str, Any]) -> None:
    """A table of one configuration."""
    print(f"\n{result['workers']} workers, {result['millions']:g} M parameters", flush=True)
    heads = (
        "",
        "all (s)",
        "range, rounds",
        "CPU (s)",
        "cores busy: own, all",
        "fullest link (MB)",
        "USD/h",
        *STEPS,
    )
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, seen in result["systems"].items():
        steps = {("UL-shard" if step == "UL-grad" else step): spent for step, spent in seen["steps_s"].items()}
        cells = (
            name,
            f"{seen['median_s']:.3f}",
            f"{seen['least_s']:.3f}–{seen['most_s']:.3f}, {seen['rounds']}",
            f"{seen['cpu_s']:.3f}",
            f"{seen['own_share']:.0%}, {seen['busy_share']:.0%}",
            f"{seen['fullest_mb']:.0f}",
            f"{servers_of(name) * result['server_usd']:.2f}",
            *(f"{steps[step]:.3f}" if step in steps else "" for step in STEPS),
        )
        print(f"| {' | '.join(cells)} |", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--millions", type=float, nargs="+", default=[11, 66], help="parameters, float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most-s", type=float, default=60, help="no further round of a system that has taken so long")
    parser.add_argument("--cold", dest="warm", action="store_false", help="count the first round too")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, help="all that make sense, unless named")
    parser.add_argument(
        "--links",
        action="store_true",
        help="put every worker and server behind a link of its own; needs root",
    )
    parser.add_argument("--worker-mbit", type=float, default=600, help="a function's link, both ways")
    parser.add_argument("--server-mbit", type=float, default=750, help="the link of a store server")
    parser.add_argument("--cirrus-mbit", type=float, help="the link of Cirrus's server; default: the same")
    parser.add_argument("--server-usd", type=float, default=0.096, help="an hour of such a server")
    parser.add_argument("--scale", type=float, default=4, help="all speeds are divided by this")
    parser.add_argument("--out", type=Path, default=Path("function_sync_results"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
