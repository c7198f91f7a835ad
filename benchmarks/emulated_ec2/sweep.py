"""Throughput over hosts on an emulated EC2: types × hosts × topology, each measured by a probe of one job.

    sudo python benchmarks/emulated_ec2/sweep.py --out curve

writes curve.csv, a trace that `mlcd plan --trace` and `mlcd bench` read, and the pictures curve.html and curve.png (where
kaleido is installed). Needs root on Linux and mlcd[emulate,examples].
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlcd.api import Client
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.core.trial import Trial
from mlcd.settings import Settings
from mlcd_emulate.client import EmulationOptions, down, up
from mlcd_emulate.emulation import emulation_named

PROGRAM = Path(__file__).resolve().parent / "cnn"
COLUMNS = (
    "workload", "instance", "nodes", "batch", "throughput", "samples", "usd_per_node_hour", "status",
    "vcpus_per_node", "origin",
)  # fmt: skip
BATCH = 256
SAMPLES = 6_000_000
RUNS = {"allreduce": "python train.py", "ps": "python servers.py"}


def main() -> None:
    """Measure, write, plot."""
    asked = _arguments()
    trials = {topology: measure(asked, topology) for topology in asked.topologies.split(",")}
    write_trace(asked.out.with_suffix(".csv"), trials)
    for topology, seen in trials.items():
        print(f"\n{topology}\n{table(seen)}")
    plot(asked.out, trials)


def measure(asked: argparse.Namespace, topology: str) -> tuple[Trial, ...]:
    """Every deployment once, by the exhaustive strategy of one job."""
    with tempfile.TemporaryDirectory() as folder:
        emulation = emulation_named("sweep", Path(folder) / "emulate")
        try:
            wanted = EmulationOptions(vcpus_per_core=asked.vcpus_per_core, vcpus=32 * asked.parallel, owner=os.getpid())
            os.environ.update(up(emulation, wanted).environment)
            settings = Ec2Settings(types=asked.types, disk_gib=8, python=sys.executable, start_seconds=5.0)
            client = Client(Settings(home=Path(folder) / "home", clouds=(settings,)))
            job_id = client.submit(client.load(job(asked, topology)))
            view = client.drive(job_id)  # a plan that is not accepted: the search alone
            client.close()
            return view.trials
        finally:
            down(emulation)


def job(asked: argparse.Namespace, topology: str) -> dict[str, Any]:
    """The CNN on every number of hosts of every type."""
    nodes = [int(count) for count in (asked.ps_nodes if topology == "ps" else asked.nodes).split(",")]
    return {
        "name": "cnn",
        "workdir": str(PROGRAM),
        "run": RUNS[topology],
        "platform": "pytorch",  # for the ranks' environment
        "topology": topology,
        "cloud": "ec2",
        "envs": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        "num_nodes": f"{min(nodes)}..{max(nodes)}",
        "batch_size": BATCH,
        "work": {"samples": SAMPLES},
        "search": {"strategy": "exhaustive", "options": {"nodes": nodes}, "parallel": asked.parallel},
        "probe": {"warmup_seconds": 2, "min_seconds": 6, "max_seconds": 8, "silent_seconds": 300},
        "checkpoint": {"grace_seconds": 5, "carry": False},
    }


def write_trace(file: Path, trials: dict[str, tuple[Trial, ...]]) -> None:
    """mlcd's own trace format; each number of parameter servers is a workload of its own."""
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        writer.writerows(row for topology, seen in trials.items() for row in rows(topology, seen))
    print(f"{file} written")


def rows(topology: str, trials: tuple[Trial, ...]) -> Iterator[tuple[Any, ...]]:
    for trial in trials:
        each, seen = trial.deployment, trial.measurement
        workload = f"cnn-{topology}" + (f"-{each.servers}" if each.servers else "")
        rate, status = (f"{seen.samples_per_second:.1f}", "ok") if seen else ("", "failed")
        offer = each.offer
        yield (
            workload, offer.instance.name, each.nodes, BATCH, rate, SAMPLES, offer.usd_per_hour, status,
            offer.instance.vcpus, "measured on an emulated EC2",
        )  # fmt: skip


def curves(trials: tuple[Trial, ...]) -> dict[str, dict[int, float]]:
    """Type, and how many serve → hosts → samples a second."""
    found: dict[str, dict[int, float]] = {}
    for trial in trials:
        if trial.measurement is not None:
            each = trial.deployment
            row = found.setdefault(f"{each.offer.instance.name}{each.serving}", {})
            row[each.nodes] = trial.measurement.samples_per_second
    return found


def table(trials: tuple[Trial, ...]) -> str:
    seen = curves(trials)
    nodes = sorted({count for row in seen.values() for count in row})
    lines = ["| type | " + " | ".join(map(str, nodes)) + " |", "|---|" + "---|" * len(nodes)]
    for name, row in seen.items():
        lines.append(f"| {name} | " + " | ".join(f"{row[n]:.0f}" if n in row else "" for n in nodes) + " |")
    return "\n".join(lines)


def plot(out: Path, trials: dict[str, tuple[Trial, ...]]) -> None:
    import plotly.graph_objects as graph

    figure = graph.Figure()
    for topology, seen in trials.items():
        line = {"dash": "solid" if topology == "allreduce" else "dot"}
        for name, row in curves(seen).items():
            nodes = sorted(row)
            rates = [row[count] for count in nodes]
            figure.add_scatter(x=nodes, y=rates, name=f"{name}, {topology}", mode="lines+markers", line=line)
    figure.update_layout(xaxis_title="hosts", yaxis_title="samples a second", template="plotly_white")
    figure.write_html(out.with_suffix(".html"), include_plotlyjs=True)
    try:
        figure.write_image(out.with_suffix(".png"), width=900, height=500)
    except (ValueError, RuntimeError) as error:  # kaleido or its browser is missing
        print(f"no PNG: {error}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", default="t3.medium,c5.large,c5n.large")
    parser.add_argument("--nodes", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--ps-nodes", default="2,3,4,6,8", help="with 1, 2, 4 … of them serving")
    parser.add_argument("--topologies", default="allreduce,ps")
    parser.add_argument("--vcpus-per-core", type=float, default=40.0)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("curve"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
