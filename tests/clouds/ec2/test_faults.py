"""Hosts slowed, filled, cut off and without power in mid-training: the right model comes home, and the bill is true."""

from __future__ import annotations

import importlib.util
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2_books import assert_bill_is_true
from ec2_settings import ec2_settings
from emulated import EmulatedEc2, wait_for
from mlcd.api import Client
from mlcd.clouds.remote.base import Machine
from mlcd.clouds.remote.files import TaskFiles
from mlcd.core.run import AttemptEnd, JobState
from mlcd.settings import Settings
from mlcd.store import Store, open_store

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).with_name("ddp_program.py")
STEPS, BATCH = 320, 32
STEPS_EACH = 30  # before something goes wrong again
FAULTS = (  # in which attempt of the training, what, on the host of which rank
    (1, "slow", 1),
    (1, "fill-disk", 0),
    (2, "cut", 0),
    (3, "poweroff", 1),
)
PATIENCE_S = 300.0


@pytest.fixture
def client(ec2: EmulatedEc2, tmp_path: Path) -> Iterator[Client]:
    """A client whose jobs run on the emulated hosts."""
    made = Client(ec2_settings(tmp_path / "home", types="c5.2xlarge", lost_seconds=6.0))
    yield made
    made.sweep(end=True, others=True)
    made.close()


def job(code: Path) -> dict[str, Any]:
    """The program on two hosts."""
    code.mkdir()
    shutil.copy(PROGRAM, code / "train.py")
    return {
        "name": "faults",
        "workdir": str(code),
        "run": "python train.py",
        "platform": "pytorch",
        "num_nodes": 2,
        "cloud": "ec2",
        "search": "exhaustive",
        "work": {"samples": STEPS * BATCH},
        "probe": {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 2, "silent_seconds": 200},
        "checkpoint": {"grace_seconds": 2},
    }


def test_a_training_survives_whatever_befalls_its_hosts(ec2: EmulatedEc2, client: Client, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    job_id = client.submit(client.load(job(tmp_path / "code")))
    client.confirm(job_id)
    breaker = Breaker(ec2, client.settings, job_id)
    breaker.start()
    view = client.drive(job_id)
    breaker.join(timeout=5.0)
    assert breaker.done == FAULTS
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    ends = [attempt.end for attempt in view.run.attempts]
    assert ends == [AttemptEnd.FAILED, AttemptEnd.LOST, AttemptEnd.LOST, AttemptEnd.FINISHED]
    assert "no space left on the disk (node 0)" in view.run.attempts[0].why
    assert view.run.samples == STEPS * BATCH
    model = torch.load(Path(view.model) / "model.pt")
    assert model["steps"] == STEPS
    right = load_program(tmp_path / "code" / "train.py").undisturbed(STEPS)
    assert all(torch.allclose(model["model"][name], right[name], atol=1e-4) for name in right)
    assert_bill_is_true(ec2, client, job_id, died=breaker.died)


class Breaker(threading.Thread):
    """Lets one thing after the other go wrong with the hosts of a training."""

    def __init__(self, ec2: EmulatedEc2, settings: Settings, job_id: str) -> None:
        super().__init__(daemon=True)
        self._ec2, self._settings, self._job_id = ec2, settings, job_id
        self.done: tuple[tuple[int, str, int], ...] = ()
        self.died: dict[str, float] = {}  # instance → when it lost its power

    def run(self) -> None:
        """A fault in each attempt of the training, once it has made steps; a slow host ends none."""
        store = open_store(self._settings.store_url)
        for attempt, kind, rank in FAULTS:
            already = sum(each == attempt for each, _, _ in self.done)
            self._wait_for_steps(store, attempt, STEPS_EACH * (1 + already))
            machine = self._machine(f"{self._job_id}-t{attempt}", rank)
            self._ec2.fault(kind, machine.id)
            self.done += ((attempt, kind, rank),)
            if kind == "poweroff":
                self.died[machine.id] = time.time()
        store.close()

    def _wait_for_steps(self, store: Store, attempt: int, steps: float) -> None:
        def enough() -> bool:
            attempts = store.attempts(self._job_id)
            return len(attempts) == attempt and attempts[-1].samples / BATCH >= steps

        wait_for(enough, f"{steps} steps of attempt {attempt}", PATIENCE_S)

    def _machine(self, task_id: str, rank: int) -> Machine:
        state = TaskFiles.of(self._settings.home / "ec2", task_id).read_state()
        assert state is not None
        return state.machines[rank]


def load_program(file: Path) -> Any:
    """The program as a module."""
    spec = importlib.util.spec_from_file_location("ddp_program", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
