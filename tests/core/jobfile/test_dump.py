"""A job written as the keys of a job file is the same job when it is read again."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcd.core.job import Job
from mlcd.core.jobfile import job_from_dict, job_to_dict
from mlcd.core.jobfile.keys import leaves, section_of
from mlcd.errors import InvalidJobError

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


SAMPLES: dict[str, list[Any]] = {  # kind of value → ways to write it
    "text": ["pip list", "a\nb"],
    "command": ["python train.py", "torchrun a.py\necho 'b'"],
    "name": ["word", "ü"],
    "text of one line, up to 100 letters": ["Full job"],
    "name or list": ["a", ["a", "b"], "*"],
    "cloud or list": ["AWS", ["gcp", "ec2"], "*"],
    "`cloud/region`": ["aws/us-east-1", "gcp", "*/eu-1"],
    "yes or no": [True, False, "yes"],
    "any number": [0, -1.5, "1e3"],
    "number": [1, 2.5],
    "share": [0.25],
    "whole number": [1, "1_000"],
    "whole number or 0": [0, 7],
    "money": [5, "$1,000.50"],
    "duration": ["7s", 8.5],
    "duration or 0": [0, "2m"],
    "duration or moment": ["6h", "2099-01-01T00:00+01:00"],
    "number or range": [4, "2..8"],
    "number, list or range": [256, [64, 96], "32..512"],
    "whole number, list or range": [1, [1, 3], "1..4"],
    "number, or `4+`": [4, "4.5+"],
    "GiB, or `32+`, `512MB`, `1TB+`": [32, "512MB", "1TB+"],
    "`A100`, `A100:8`, list, or mapping": ["A100", ["A100:8", "V100:0.3"], {"T4": 4}],
    "`up` or `down`": ["up", "min"],
    "`vm`, `function` or both": ["vm", ["function", "vm"]],
    "regular expression": ["step (?P<step>\\d+)"],
    "mapping": [{"k": [1, {"deep": None}]}],
    "folder": ["."],
    "folder below the working directory": ["state"],
    "pattern or list of patterns": ["*.pt", ["a", "b/*"]],
    "mapping of names to texts": [{"A": "1", "B": 2}],
    "mapping, or list of names": [["KEY"], {"KEY": "x"}],
    "mapping of target to source": [{"d": ".", "/s": "s3://bucket/path"}],
    "address, mapping, or list of them": ["me@example.org", {"webhook": "$KEY", "sign_with": "KEY"}],
    "list of such mappings": [[{"cpus": 4}, {"accelerators": "A100", "region": ["a", "b"]}]],
}
NEEDED = {  # what a key cannot be said without
    "work": {"samples": 10},
    "work.until": {"metric": "loss", "value": 0.5},
    "batch_size": {"sizes": [8]},
}
CASES = [
    (name, value)
    for name, entry in leaves(section_of(Job))
    for value in SAMPLES.get(entry.form) or re.findall(r"`(\w+)`", entry.form)
]


def said(name: str, value: Any) -> dict[str, Any]:
    """The shortest job that says the key."""
    keys: dict[str, Any] = {"name": "x", "run": "y"}
    *above, last = name.split(".")
    if name == "on_event":
        keys["secrets"] = ["KEY"]
    inner = keys
    for depth, part in enumerate(above, start=1):
        inner = inner.setdefault(part, dict(NEEDED.get(".".join(above[:depth]), {})))
    if name == "work.epochs":
        inner["dataset_size"] = inner.pop("samples")
    inner[last] = value
    return keys


def moments_aside(job: Job) -> Job:
    """The time to a moment runs while a job is read twice."""
    return job if job.deadline_at is None else replace(job, deadline_seconds=None)


@pytest.mark.parametrize(("name", "value"), CASES)
def test_every_key_comes_back_the_same(name: str, value: Any) -> None:
    job = read(said(name, value))
    again = read(json.loads(json.dumps(job_to_dict(job))))
    assert moments_aside(again) == moments_aside(job)


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES} - {"name", "run"}))
def test_every_key_makes_a_difference(name: str) -> None:
    jobs = [read(said(name, value)) for key, value in CASES if key == name]
    least = {key: value for key, value in said(name, None).items() if key != name.split(".")[0]}
    assert any(job != read(least) for job in jobs)


def test_every_key_has_a_case() -> None:
    assert {name for name, _ in CASES} == {name for name, _ in leaves(section_of(Job))}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(CASES), max_size=12))
def test_any_set_of_keys_comes_back_the_same(cases: list[tuple[str, Any]]) -> None:
    keys: dict[str, Any] = {}
    for name, value in cases:
        keys = merged(keys, said(name, value))
    with suppress(InvalidJobError):  # two keys that say the same
        job = read(keys)
        assert moments_aside(read(job_to_dict(job))) == moments_aside(job)


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {**one, **other}
    for key in one.keys() & other.keys():
        if isinstance(one[key], dict) and isinstance(other[key], dict):
            both[key] = merged(one[key], other[key])
    return both
