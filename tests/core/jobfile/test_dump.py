"""A job written as the keys of a job file is the same job when it is read again."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from mlcd.core.job import Job
from mlcd.core.jobfile import job_from_dict, job_to_dict

FULL: dict[str, Any] = {
    "name": "Full job",
    "run": "torchrun train.py --rate 0.1",
    "setup": "pip list",
    "envs": {"A": "1"},
    "secrets": ["KEY"],
    "outputs": ["out/*.pt"],
    "platform": "pytorch",
    "topology": "ps",
    "resources": {
        "any_of": [
            {"cpus": "4+", "memory": 32, "use_spot": True},
            {"accelerators": ["A100:8", "V100:2"], "region": "eu-1", "cloud": "ec2"},
            {"instance_type": ["a.large", "b.large"]},
        ]
    },
    "num_nodes": "2..8",
    "batch_size": [64, 96],
    "work": {
        "samples": 1000,
        "dataset_size": 100,
        "until": {"metric": "loss", "value": 0.5, "direction": "down"},
    },
    "goal": "cheapest",
    "deadline": "6h",
    "budget": 12.5,
    "search": {"strategy": "heterbo", "max_probes": 5, "seed": 3, "parallel": 2, "kinds": ["vm", "function"]},
    "probe": {"min_seconds": 1, "max_seconds": 9},
    "checkpoint": {"path": "ckpt", "keep": 5, "carry": False, "grace_seconds": 0},
    "progress": {"pattern": "step (?P<step>\\d+)", "hang_seconds": 0},
    "on_nan": "stop",
    "learning_rate": {"rule": "sqrt", "base_batch_size": 64},
    "elastic": False,
    "cloud": "local",
}


def read(keys: dict[str, Any]) -> Job:
    return job_from_dict(keys, secrets={"KEY": "value"} if "secrets" in keys else {}).job


@pytest.mark.parametrize(
    "keys",
    [
        FULL,
        {"name": "least", "run": "true"},
        {"name": "by date", "run": "true", "deadline": "2099-01-01T00:00+01:00"},
    ],
)
def test_a_job_comes_back_the_same(keys: dict[str, Any]) -> None:
    job = read(keys)
    again = read(json.loads(json.dumps(job_to_dict(job))))
    if job.deadline_at is None:
        assert again == job
    else:
        assert again.deadline_at == job.deadline_at


def test_the_folder_and_the_mounts_come_back_the_same(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    job = read({**FULL, "workdir": str(tmp_path), "file_mounts": {"d": str(tmp_path / "data")}})
    assert read(job_to_dict(job)) == job


def test_every_fact_of_a_job_is_written() -> None:
    """A new field of Job must be added to job_to_dict and to FULL."""
    least, full = read({"name": "x", "run": "y"}), read(FULL)
    elsewhere = {"workdir", "file_mounts", "deadline_at", "cloud", "on_event"}  # other tests have them
    same = {field.name for field in fields(Job) if getattr(least, field.name) == getattr(full, field.name)}
    assert same <= elsewhere, f"{same - elsewhere} are not looked at here"
