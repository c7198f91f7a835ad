"""A goal that no deployment can reach: refused early, and reached with the limit that the refusal names."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.core.run import JobState
from mlcd.core.units import show_duration
from mlcd.errors import UserError

pytestmark = pytest.mark.slow

GPUS = (1, 2, 4, 8)
MODELS = {"t4": (1.0, 800.0), "v100": (3.0, 2400.0), "a100": (4.0, 4500.0)}  # $ and samples/s of one GPU
SAMPLES = 2_000_000_000


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """One node of each kind; eight GPUs are six times as fast as one."""
    file = tmp_path / "trace.csv"
    with file.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["workload", "instance", "nodes", "throughput", "usd_per_node_hour", "status"])
        for model, (usd, speed) in MODELS.items():
            for gpus in GPUS:
                fast = speed * gpus / (1.0 + 0.048 * (gpus - 1))
                rows.writerow(["net", f"{model}x{gpus}", 1, f"{fast:.1f}", usd * gpus, "ok"])
    return file


def plan(client: Client, trace: Path, **limits: object) -> str:
    job = {"name": "big", "run": "python train.py", "work": {"samples": SAMPLES}, **limits}
    options = {"trace": str(trace), "workload": "net"}
    job_id = client.submit(client.load(job), cloud="replay", cloud_options=options)
    client.start(job_id)
    list(client.follow(job_id))
    return job_id


def test_an_impossible_deadline_is_refused_early_and_the_one_that_is_named_does(client: Client, trace: Path) -> None:
    job_id = plan(client, trace, goal="cheapest", deadline="8h", budget=100_000)
    view = client.view(job_id)
    assert view.record.state is JobState.FAILED
    assert view.record.error.startswith("No deployment can keep the deadline.")
    assert len(view.trials) <= 8
    enough = view.record.enough_seconds
    assert enough is not None
    assert view.record.enough_usd is None
    client.resume(job_id, deadline=show_duration(enough))
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.PLANNED, view.record.error
    assert view.record.enough_seconds is None
    assert view.record.plan is not None
    assert view.record.plan.total.seconds <= enough
    assert not view.limits_changed  # the plan was made for the new ones
    client.resume(job_id, deadline="90d")
    assert client.view(job_id).limits_changed


@pytest.mark.parametrize(
    ("budget_usd", "words"),
    [
        (float("nan"), "budget: nan is not an amount of US dollars"),
        (float("inf"), "budget: the number is too large."),
    ],
)
def test_a_new_budget_is_an_amount(client: Client, trace: Path, budget_usd: float, words: str) -> None:
    job_id = plan(client, trace, goal="fastest", budget=30, deadline="30d")
    with pytest.raises(UserError, match=words):
        client.resume(job_id, budget_usd=budget_usd)
    assert client.view(job_id).record.budget_usd == 30


def test_an_impossible_budget_is_refused_early_and_the_one_that_is_named_does(client: Client, trace: Path) -> None:
    job_id = plan(client, trace, goal="fastest", budget=30, deadline="30d")
    view = client.view(job_id)
    assert view.record.error.startswith("No deployment can keep the budget.")
    assert len(view.trials) <= 8
    assert view.record.enough_usd is not None
    client.resume(job_id, budget_usd=view.record.enough_usd)
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.PLANNED, view.record.error
