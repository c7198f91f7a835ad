"""Fastest, cheapest under a deadline, fastest under a budget: the choices of a search, held against trying all.

A real network on emulated hosts of three types × 1–8. Hosts have a fixed share of a core and shaped links, so that how
fast they are together is set by these and hardly by how busy the computer is, as long as their shares fit into its cores:
no more than three deployments are tried at a time. A table of all types on 1, 2, 4 and 8 hosts
is measured by one job (benchmarks/emulated_ec2 measures all 24); limits that bind are drawn from it; each search sees
nothing but its own probes, over all 24.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from ec2_settings import ec2_settings
from emulated import EmulatedEc2, emulated_ec2
from mlcd.api import Client
from mlcd.core.machines import Deployment
from mlcd.core.plan import Plan
from mlcd.core.run import JobState
from mlcd.core.trial import Measurement
from mlcd.core.view import JobView

pytestmark = [pytest.mark.slow, pytest.mark.alone]
PROGRAM = Path(__file__).resolve().parents[3] / "benchmarks" / "emulated_ec2" / "cnn" / "train.py"
TYPES = ("t3.medium", "c5.large", "c5n.large")  # cheap with a slow network, plain, dear with a fast network
NODES = (1, 2, 4, 8)
SAMPLES = 6_000_000.0  # of the searches: a training of an hour
SAMPLES_TRAINED = 40_000.0
PROBE = {
    "warmup_seconds": 2,
    "min_seconds": 7,
    "max_seconds": 10,
    "interval_share": 0.05,
    "silent_seconds": 120,
}
BATCH = 256
NEAR = 0.9


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedEc2]:
    """An emulation of its own, whose hosts have a twentieth of a core: many fit on two that are busy."""
    pytest.importorskip("boto3", reason="pip install 'mlcd[ec2]'")
    with emulated_ec2(tmp_path_factory.mktemp("ec2"), vcpus_per_core=40.0, vcpus=320) as ec2:
        yield ec2


@pytest.fixture
def home(small: EmulatedEc2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of clients whose account is the emulation."""
    for name, value in small.env.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "code").mkdir()
    shutil.copyfile(PROGRAM, tmp_path / "code" / "train.py")
    return tmp_path / "home"


class Seen:
    """Every deployment that anyone has measured, by its key, with all its readings."""

    def __init__(self, *views: JobView) -> None:
        self.readings: dict[str, list[Measurement]] = {}
        self._deployments: dict[str, Deployment] = {}
        for trial in (trial for view in views for trial in view.trials):
            if trial.measurement is not None:
                self.readings.setdefault(trial.deployment.key, []).append(trial.measurement)
                self._deployments[trial.deployment.key] = trial.deployment

    def key(self, name: str, nodes: int) -> str:
        return f"{nodes}x{name}@us-east-1/b{BATCH}"

    def speed(self, key: str) -> float:
        """Samples a second, the mean of its readings."""
        return mean(reading.samples_per_second for reading in self.readings[key])

    def doubt(self, key: str) -> float:
        """How much faster it may be, as far as its readings tell: a factor."""
        share = mean(reading.high / reading.samples_per_second - 1 for reading in self.readings[key])
        return 1 + share / sqrt(len(self.readings[key]))

    def seconds(self, key: str) -> float:
        return SAMPLES / self.speed(key)

    def usd(self, key: str) -> float:
        return self._deployments[key].usd(self.seconds(key))


def test_choices_are_within_a_tenth_of_the_best_and_limits_are_kept(home: Path) -> None:
    (sweep,) = run_all(home, sweep_job(home))
    table = Seen(sweep)
    assert len(table.readings) == len(TYPES) * len(NODES)
    deadline, budget = limits_that_bind(table)
    fastest, cheapest, capped, trained = run_all(
        home,
        job(home, goal="fastest"),
        job(home, goal="cheapest", deadline=f"{deadline:.0f}s"),
        job(home, goal="fastest", budget=budget),
        training_job(home),
    )
    seen = Seen(sweep, fastest, cheapest, capped)
    tell(seen, fastest, cheapest, capped)

    assert_near(seen, fastest, seen.seconds, list(seen.readings))
    in_time = [key for key in seen.readings if cheapest.spent.seconds + seen.seconds(key) <= NEAR * deadline]
    assert_near(seen, cheapest, seen.usd, in_time)
    assert plan_of(cheapest).total.seconds <= deadline
    affordable = [key for key in seen.readings if capped.spent.usd + seen.usd(key) <= NEAR * budget]
    assert_near(seen, capped, seen.seconds, affordable)
    assert plan_of(capped).total.usd <= budget
    assert_trained_within_limits(trained)


def limits_that_bind(table: Seen) -> tuple[float, float]:
    """A deadline that one host of the cheapest type misses and two keep; a budget too small for the most machines."""
    hosts = [table.seconds(table.key("t3.medium", nodes)) for nodes in (1, 2)]
    costs = [table.usd(table.key("c5n.large", nodes)) for nodes in (4, 8)]
    return sqrt(hosts[0] * hosts[1]), sqrt(costs[0] * costs[1])


def assert_near(seen: Seen, view: JobView, badness: Callable[[str], float], allowed: list[str]) -> None:
    """The choice is at most a tenth worse than the best that keeps the limit with some room; readings err, too."""
    choice, best = plan_of(view).deployment.key, min(allowed, key=badness)
    assert NEAR * badness(choice) <= badness(best) * seen.doubt(choice), f"{choice} was chosen, best is {best}"


def assert_trained_within_limits(view: JobView) -> None:
    record = view.record
    assert record.state is JobState.SUCCEEDED, record.error
    assert json.loads((Path(view.model) / "metrics.json").read_text())["test_accuracy"] > 0.9
    assert record.ended_at is not None
    assert record.deadline_at is not None
    assert record.ended_at <= record.deadline_at
    assert sum(item.usd for item in view.bill) == pytest.approx(view.spent.usd)
    assert view.spent.usd <= (record.budget_usd or 0.0)


def plan_of(view: JobView) -> Plan:
    assert view.record.plan is not None, view.record.error
    return view.record.plan


def tell(seen: Seen, *views: JobView) -> None:
    """What was measured and chosen, for whoever reads the log of a failure."""
    for key in seen.readings:
        readings = " ".join(f"{reading.samples_per_second:.0f}" for reading in seen.readings[key])
        print(f"{key}: {seen.speed(key):.0f}/s of {readings}, ${seen.usd(key):.3f}")
    for view in views:
        print(f"{view.goal}: {len(view.trials)} probes, {view.search}, {plan_of(view).reason}")


def job(home: Path, **keys: Any) -> dict[str, Any]:
    """A search over three types × 1–8 hosts that knows nothing of the others."""
    return {
        "name": "cnn",
        "workdir": str(home.parent / "code"),
        "run": "python train.py",
        "platform": "pytorch",  # for the ranks' environment
        "cloud": "ec2",
        "envs": {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        },  # a thread more than cores would only spin
        "num_nodes": "1..8",
        "batch_size": BATCH,
        "work": {"samples": SAMPLES},
        "search": {"learn": False, "max_probes": 9},
        "probe": PROBE,
        "checkpoint": {"grace_seconds": 5, "carry": False},
        **keys,
    }


def sweep_job(home: Path) -> dict[str, Any]:
    every = {"strategy": "exhaustive", "options": {"nodes": list(NODES)}, "learn": False, "parallel": 3}
    return job(home, goal="fastest", search=every)


def training_job(home: Path) -> dict[str, Any]:
    """A short training that knows what the sweep has seen, and is done to its end."""
    limits = {"deadline": "10m", "budget": 0.02}
    return job(home, goal="fastest", work={"samples": SAMPLES_TRAINED}, search={"max_probes": 1}, **limits)


def run_all(home: Path, *jobs: dict[str, Any]) -> list[JobView]:
    """All at the same time, each as far as it goes: to the plan, or to the model where the work is short."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(lambda each: run(home, each), jobs))


def run(home: Path, wanted: dict[str, Any]) -> JobView:
    client = Client(ec2_settings(home, types=", ".join(TYPES), keep_seconds=30.0))
    try:
        job_id = client.submit(client.load(wanted))
        if wanted["work"]["samples"] == SAMPLES_TRAINED:
            client.confirm(job_id)
        return client.drive(job_id)
    finally:
        client.close()
