"""Times of a training on an emulated EC2: needs root on Linux and mlcd[emulate,examples].

    python benchmarks/emulated_ec2/run.py times

From `mlcd run` to the first step, and from a host without power to the next step.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlcd.api import Client
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.core.run import AttemptEnd
from mlcd.core.task import TaskKind
from mlcd.core.view import JobView
from mlcd.settings import Settings
from mlcd_emulate.client import EmulationOptions, down, fault, status, up
from mlcd_emulate.emulation import Emulation, emulation_named

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
TIMEOUT_SECONDS = 900.0


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["times"])
    parser.parse_args()
    with emulated("c5.large") as (emulation, client):
        times(emulation, client)


@contextmanager
def emulated(types: str) -> Iterator[tuple[Emulation, Client]]:
    """An emulated EC2 of our own, and a client whose jobs run there."""
    import sys

    with tempfile.TemporaryDirectory() as folder:
        emulation = emulation_named("bench", Path(folder) / "emulate")
        try:
            os.environ.update(up(emulation, EmulationOptions()).environment)
            settings = Ec2Settings(
                regions="us-east-1", types=types, disk_gib=8, python=sys.executable, lost_seconds=10.0
            )
            client = Client(Settings(home=Path(folder) / "home", clouds=(settings,)))
            yield emulation, client
            client.close()
        finally:
            down(emulation)


def job(**keys: Any) -> dict[str, Any]:
    """The digits CNN on the emulated hosts."""
    return {
        "name": "digits",
        "workdir": str(DIGITS),
        "run": "python train.py",
        "platform": "pytorch",
        "cloud": "ec2",
        "goal": "fastest",
        "batch_size": 128,
        "work": {"epochs": 20, "dataset_size": 1437},
        "search": {"strategy": "exhaustive"},
        "probe": {"warmup_seconds": 2, "min_seconds": 5, "max_seconds": 20, "silent_seconds": 300},
        "checkpoint": {"grace_seconds": 5, "carry": False},
        **keys,
    }


def times(emulation: Emulation, client: Client) -> None:
    """A job on two hosts, one of which loses its power while it trains."""
    wanted = job(num_nodes=2, resources={"instance_type": "c5.large"})
    began = time.time()
    job_id = client.submit(client.load(wanted))
    client.confirm(job_id)
    threading.Thread(target=cut_power, args=(emulation, client.settings, job_id), daemon=True).start()
    view = client.drive(job_id)
    for line in told(view, client, began):
        print(line)


def cut_power(emulation: Emulation, settings: Settings, job_id: str) -> None:
    """Wait for steps of the training, then let one of its hosts lose its power."""
    watcher = Client(settings)
    until = time.time() + TIMEOUT_SECONDS
    while time.time() < until:
        live = watcher.view(job_id).live
        if live is not None and live.kind is TaskKind.TRAINING and live.samples > 3000:
            fault(emulation, "poweroff", status(emulation)["hosts"][-1]["address"])
            return
        time.sleep(0.2)


def told(view: JobView, client: Client, began: float) -> Iterator[str]:
    yield f"the job {view.record.state}, model {view.model or 'none'}, ${view.spent.usd:.4f}"
    probes = client.store.tasks(view.record.id)
    first = min(task.intended_at for task in probes)
    yield f"from `mlcd run` to the first probe's launch: {first - began:.1f} s"
    for before, after in zip(view.run.attempts, view.run.attempts[1:], strict=False):
        if before.end is AttemptEnd.LOST and after.first_step_at and before.last_step_at:
            yield f"from the last step before the loss to the next step: {after.first_step_at - before.last_step_at:.1f} s"
            yield f"  of which noticing: {(before.ended_at or 0) - before.last_step_at:.1f} s ({before.why})"
    for attempt in view.run.attempts:
        if attempt.first_step_at is not None:
            yield f"from the launch of attempt {attempt.number} to its first step: {attempt.first_step_at - attempt.started_at:.1f} s"
    for trial in view.trials:
        yield f"a probe: start {trial.phases.start:.1f} s, setup {trial.phases.setup:.1f} s, warm-up {trial.phases.warmup:.1f} s, measuring {trial.phases.measuring:.1f} s"


if __name__ == "__main__":
    main()
