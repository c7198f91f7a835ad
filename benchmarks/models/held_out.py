"""Tries the models on made-up jobs: `python benchmarks/models/held_out.py [SEEDS] [JOBS] [SIZES]`.

The jobs come as a folder in the three formats that `mlcd bench models` reads. What makes their times is not what the models
assume: a step is the larger of compute and exchange but for a part that cannot overlap, gradients go round a ring, the
memory of a GPU cuts the batch, each GPU suits each job more or less, and every deployment has a quirk that nothing explains.

SIZES says by what factor (e to that power, one standard deviation) a model is larger or smaller than the one whose exchange between
two T4s takes as long as the smallest piece of its compute; 0.7 without it.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np

from mlcd_bench.models.data import read_jobs
from mlcd_bench.models.evaluation import run_models

GPUS = {  # speed beside a T4, bytes/s inside a node and between nodes, dollars an hour
    "t4": (1.0, 6e9, 1.5e9, 0.5),
    "rtx2080ti": (1.9, 8e9, 4e9, 0.9),
    "rtx6000": (2.4, 8e9, 4e9, 1.3),
    "a100": (4.5, 1.2e11, 1e10, 2.7),
}
GRIDS = {
    "t4": ((1, 2, 3, 4, 6, 8, 12, 16), (1, 2, 4)),
    "rtx2080ti": ((1, 2), (1, 2, 4, 8)),
    "rtx6000": ((1, 2), (1, 2, 4)),
    "a100": ((1, 2), (1, 2, 4, 8)),
}
QUIRK = 0.03  # of a deployment's step time
SUITS = 0.2  # how well a GPU suits a job


@dataclass(frozen=True)
class MadeJob:
    """A job whose every time is known."""

    name: str
    batches: tuple[int, ...]
    fixed: float  # seconds of a step, on a T4
    rate: float  # samples a second of a T4 that is full
    suits: dict[str, float]
    model: float  # bytes
    overlap: float  # share of the compute that the exchange can hide behind
    largest: int  # micro-batch that a T4 holds
    samples: float
    noise: float
    first_noise: float

    def step_seconds(self, gpu: str, nodes: int, gpus: int, local: float) -> float:
        """Of all devices together, with so many samples on each."""
        speed, inside, between, _ = GPUS[gpu]
        pieces = max(1, int(np.ceil(local / self.limit(gpu) - 1e-9)))
        compute = self.fixed / speed**0.5 + local / pieces / (self.rate * speed * self.suits[gpu])
        exchange = 2 * (gpus - 1) / gpus * self.model / inside
        if nodes > 1:
            exchange += 2 * (nodes - 1) / nodes * self.model / between + 3e-4 * np.log2(nodes)
        hidden = max(self.overlap * compute, exchange)
        return float((pieces - 1) * compute + (1 - self.overlap) * compute + hidden)

    def limit(self, gpu: str) -> int:
        """Samples that one GPU holds."""
        return self.largest * (4 if gpu == "a100" else 2 if gpu == "rtx6000" else 1)


def make_job(rng: np.random.Generator, name: str, sizes_spread: float) -> MadeJob:
    """One of many that might be."""
    smallest = int(2 ** rng.integers(3, 8))
    sizes = int(rng.integers(5, 8))
    load = 10.0 ** rng.uniform(-0.7, 0.7)  # of a T4 with the smallest batch: samples against the constant
    fixed = 10.0 ** rng.uniform(-2.2, -0.7)
    noise = smallest * 10.0 ** rng.uniform(1.3, 3.0)
    return MadeJob(
        name=name,
        batches=tuple(smallest * 2**power for power in range(sizes)),
        fixed=fixed,
        rate=smallest / (fixed * load),
        suits={gpu: float(rng.lognormal(0.0, SUITS)) for gpu in GPUS},
        model=fixed * (1 + load) * GPUS["t4"][2] * rng.lognormal(0.0, sizes_spread),
        overlap=float(rng.uniform(0.3, 0.7)),
        largest=smallest * int(2 ** rng.integers(0, 3)),
        samples=10.0 ** rng.uniform(5.0, 7.5),
        noise=noise,
        first_noise=noise * 10.0 ** rng.uniform(-2.0, -0.5),
    )


def write_folder(folder: Path, jobs: list[MadeJob], rng: np.random.Generator) -> None:
    """The three files."""
    noise = [row for job in jobs for row in _noise(job, rng)]
    _write(folder / "gradient_noise.csv", noise)
    _write(folder / "step_times.csv", [row for job in jobs for row in _steps(job, rng)])
    _write(folder / "gpu_training.csv", [row for job in jobs for row in _trace(job, rng)])


def _noise(job: MadeJob, rng: np.random.Generator) -> Iterator[dict[str, object]]:
    for batch in job.batches:
        samples = job.samples * (1.0 + batch / job.noise) * rng.lognormal(0.0, 0.005)
        for epoch, scale in ((0, job.first_noise), (1, job.noise)):
            measured = scale * rng.lognormal(0.0, 0.3)
            done = samples * (epoch + 1) / 2
            yield {
                "workload": job.name,
                "batch_size": batch,
                "epoch": epoch,
                "samples": round(done),
                "noise_scale_samples": measured,
            }


def _steps(job: MadeJob, rng: np.random.Generator) -> Iterator[dict[str, object]]:
    for gpu in GPUS:
        local = 1
        while local <= job.limit(gpu):
            seconds = job.step_seconds(gpu, 1, 1, local) * rng.lognormal(0.0, QUIRK)
            yield {
                "workload": job.name,
                "instance": gpu,
                "nodes": 1,
                "gpus": 1,
                "local_batch": local,
                "step_time_s": seconds,
            }
            local *= 2


def _trace(job: MadeJob, rng: np.random.Generator) -> Iterator[dict[str, object]]:
    for gpu, (nodes_choices, gpus_choices) in GRIDS.items():
        for nodes in nodes_choices:
            for gpus in gpus_choices:
                quirk = rng.lognormal(0.0, QUIRK)
                for batch in (one for one in job.batches if one >= nodes * gpus):
                    seconds = job.step_seconds(gpu, nodes, gpus, batch / nodes / gpus) * quirk
                    cut = batch / nodes / gpus > job.limit(gpu)
                    yield {
                        "workload": job.name,
                        "instance": f"{gpu}x{gpus}",
                        "nodes": nodes,
                        "batch": batch,
                        "throughput": batch / seconds * rng.lognormal(0.0, 0.01),
                        "samples": "",
                        "usd_per_node_hour": GPUS[gpu][3] * gpus,
                        "status": "ok",
                        "gpus_per_node": gpus,
                        "origin": "accumulated" if cut else "measured",
                    }


def _write(file: Path, rows: list[dict[str, object]]) -> None:
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def main(seeds: int = 6, count: int = 4, sizes_spread: float = 0.7) -> None:
    """Mean errors by mode, over all jobs of all seeds, and how many jobs keep the bounds."""
    errors: dict[str, list[float]] = defaultdict(list)
    held: dict[str, list[float]] = defaultdict(list)
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        with tempfile.TemporaryDirectory() as folder:
            write_folder(Path(folder), [make_job(rng, f"made-{n}", sizes_spread) for n in range(count)], rng)
            results = run_models(read_jobs(Path(folder)).jobs, seed)
        for mode, jobs in results.items():
            means = [mean(one.error for one in predicted) for predicted in jobs.values()]
            errors[mode] += means
            held[mode] += [mean(one.covered for one in predicted) for predicted in jobs.values()]
            print(f"seed {seed} {mode:22} {mean(means):6.1%}   worst job {max(means):6.1%}", flush=True)
    for mode, found in errors.items():
        within = f"{mean(held[mode]):6.1%} in the interval, worst job {min(held[mode]):6.1%}"
        print(f"all    {mode:22} {mean(found):6.1%}   9 of 10 jobs below {np.quantile(found, 0.9):6.1%}   {within}")


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:3]), *(float(text) for text in sys.argv[3:4]))
