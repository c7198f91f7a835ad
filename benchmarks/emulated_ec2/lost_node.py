"""How long a training stands still when one of its hosts loses its power: needs root on Linux and mlcd[emulate,examples].

    python benchmarks/emulated_ec2/lost_node.py --rounds 5

The digits CNN trains on two emulated hosts. Again and again one of them loses its power in mid-training; the time is taken
from that moment to the next step. Once as mlcd does it: the other host waits and only the lost one is rented anew. And once,
for comparison, as if the whole deployment were restarted: both hosts are given back and rented anew (ec2.keep_seconds = 0).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from mlcd.api import Client
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.clouds.remote.files import TaskFiles
from mlcd.settings import Settings
from mlcd_emulate.client import EmulationOptions, down, fault, status, up
from mlcd_emulate.emulation import Emulation, emulation_named

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
BATCH = 128
PATIENCE_S = 600.0
STEPS_BEFORE = 20  # the training is under way before the next loss
WAYS = {"only the lost host is rented anew": 45.0, "the whole deployment is restarted": 0.0}

PARTS = ("noticing", "renting", "starting", "whole")


@dataclass(frozen=True)
class Pause:
    """One loss, in seconds."""

    noticing: float  # from the power cut until the other host's program has ended and what it saved is home
    renting: float  # until a new host is there and both are filled
    starting: float  # until the program makes its first step

    @property
    def whole(self) -> float:
        """From the power cut to the next step."""
        return self.noticing + self.renting + self.starting


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--type", default="c5.xlarge")
    given = parser.parse_args()
    print("| | losses | noticed and ended, s | rented and filled, s | program started, s | to the next step, s |")
    print("|---|---|---|---|---|---|")
    for way, keep_seconds in WAYS.items():
        with training(given.type, keep_seconds) as (emulation, client, job_id):
            pauses = [lose_one(emulation, client, job_id) for _ in range(given.rounds)]
        parts = [[getattr(each, name) for each in pauses] for name in PARTS]
        print(f"| {way} | {len(pauses)} | {' | '.join(map(spread, parts))} |", flush=True)


@contextmanager
def training(instance_type: str, keep_seconds: float) -> Iterator[tuple[Emulation, Client, str]]:
    """The digits CNN under way on two hosts of an emulated EC2 of our own."""
    with tempfile.TemporaryDirectory() as folder:
        emulation = emulation_named("lostnode", Path(folder) / "emulate")
        try:
            os.environ.update(up(emulation, EmulationOptions(owner=os.getpid())).environment)
            client = Client(settings(Path(folder), instance_type, keep_seconds))
            job_id = client.submit(client.load(job(instance_type)))
            client.confirm(job_id)
            driver = threading.Thread(target=client.drive, args=(job_id,), daemon=True)
            driver.start()
            yield emulation, client, job_id
            client.stop(job_id)
            driver.join(PATIENCE_S)
            client.close()
        finally:
            down(emulation)


def settings(folder: Path, instance_type: str, keep_seconds: float) -> Settings:
    """Hosts that wait so long for the next attempt."""
    ec2 = Ec2Settings(
        regions="us-east-1",
        types=instance_type,
        disk_gib=8,
        python=sys.executable,
        keep_seconds=keep_seconds,
    )
    return Settings(home=folder / "home", clouds=(ec2,))


def job(instance_type: str) -> dict[str, Any]:
    """More epochs than there is time for: it is stopped in the end."""
    return {
        "name": "digits",
        "workdir": str(DIGITS),
        "run": "python train.py",
        "platform": "pytorch",
        "cloud": "ec2",
        "num_nodes": 2,
        "resources": {"instance_type": instance_type},
        "batch_size": BATCH,
        "work": {"epochs": 1000, "dataset_size": 1437},
        "search": "exhaustive",
        "probe": {"warmup_seconds": 1, "min_seconds": 2, "max_seconds": 10, "silent_seconds": 300},
        "checkpoint": {"grace_seconds": 5, "max_losses": 100},
    }


def lose_one(emulation: Emulation, client: Client, job_id: str) -> Pause:
    """Cut the power of a host in mid-training, and wait for the first step of the next attempt."""
    wait(lambda: _steps(client, job_id) >= STEPS_BEFORE)
    attempt = len(client.store.attempts(job_id))
    fault(emulation, "poweroff", status(emulation)["hosts"][-1]["id"])
    cut_at = time.time()
    wait(lambda: _steps(client, job_id, beyond=attempt) > 0)
    *_, before, after = client.store.attempts(job_id)
    state = TaskFiles.of(client.settings.home / "ec2", after.task_id).read_state()
    ended_at, running_at, step_at = before.ended_at, state and state.running_at, after.first_step_at
    if ended_at is None or running_at is None or step_at is None:
        raise RuntimeError(f"{after.task_id} made a step and never ran")
    return Pause(ended_at - cut_at, running_at - ended_at, step_at - running_at)


def _steps(client: Client, job_id: str, beyond: int = 0) -> float:
    """Of the newest attempt, if there are more than so many."""
    attempts = client.store.attempts(job_id)
    return attempts[-1].samples / BATCH if len(attempts) > beyond else 0.0


def wait(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("the training does not go on")
        time.sleep(0.2)


def spread(seconds: list[float]) -> str:
    return f"{median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})"


if __name__ == "__main__":
    main()
