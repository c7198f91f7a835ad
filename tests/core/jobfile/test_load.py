"""Job files: what SkyPilot takes loads unchanged, ours adds keys, and nothing that is written breaks the reader."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from job_texts import SKYPILOT, job, with_run
from mlcd.core.goal import Aim
from mlcd.core.job import BatchSizes, Direction, Job, NodeRange, Resources
from mlcd.core.jobfile import LoadedJob, job_from_dict, load_job, parse_job
from mlcd.core.notices import Channel, Recipient
from mlcd.core.serial import from_json, to_json
from mlcd.errors import InvalidJobError

NOON = datetime(2026, 11, 17, 12, 0, tzinfo=UTC).timestamp()


def test_the_shortest_job_has_a_command_and_the_name_of_its_file() -> None:
    found = job("run: python train.py", source="jobs/digits.yaml")
    assert found == Job(name="digits", run="python train.py")


def test_a_skypilot_task_loads_unchanged(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    loaded = parse_job(SKYPILOT, base=tmp_path, environ={"WANDB_API_KEY": "xyz", "HOME": "/root"})
    assert loaded.job == Job(
        name="my-task",
        run="python train.py --seed ${SEED}\n",
        setup="pip install -r requirements.txt\n",
        workdir=str(tmp_path),
        envs={
            "MY_BUCKET": "skypilot-temp-gcs-test",
            "LEARNING_RATE": "1e-4",
            "DEBUG": "True",
            "SEED": "007",
        },
        secret_names=("HF_TOKEN", "WANDB_API_KEY"),
        file_mounts={"/remote/path": str(tmp_path / "data"), "/datasets-s3": "s3://my-awesome-dataset"},
        nodes=NodeRange(4, 4),
        resources=(
            Resources(
                clouds=("ec2",),
                regions=("us-east-1",),
                instance_types=("p3.8xlarge",),
                accelerators=(("H100", 8.0),),
                min_vcpus=4.0,
                min_memory_gib=32.0,
                use_spot=False,
                max_usd_per_hour=10.0,
            ),
        ),
    )
    assert loaded.secrets == {"HF_TOKEN": "abc", "WANDB_API_KEY": "xyz"}


def test_what_is_not_used_is_noted(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    notices = parse_job(SKYPILOT, base=tmp_path, environ={"WANDB_API_KEY": "xyz"}).notices
    assert "resources.ports is not used by mlcd." in notices
    assert "service is not used by mlcd." in notices
    assert any("/checkpoints" in notice for notice in notices)
    assert len(notices) == 2 + 9 + 3


OURS = """\
run: torchrun train.py
num_nodes: 1..8
work:
  epochs: 10
  dataset_size: 1_000
  until: {metric: val_loss, value: 0.1}
batch_size: 32..512
goal: fastest
deadline: 1h30m
budget: $1,000.50
search: {strategy: random, max_probes: 5, seed: 3, kinds: [vm, function], options: {k: 2}}
probe: {interval_share: 0.1, min_seconds: 1, max_seconds: 1m, warmup_seconds: 0}
checkpoint: out/checkpoints
progress: 'step (?P<step>\\d+)'
outputs: ["model/*", metrics.json]
platform: pytorch
cloud: replay
on_event: https://example.org/hook
"""


def test_our_keys_are_read() -> None:
    loaded = parse_job(OURS)
    found = loaded.job
    assert found.nodes == NodeRange(1, 8)
    assert found.batch_sizes == BatchSizes((32, 64, 128, 256, 512))
    assert found.work is not None
    assert found.work.samples == 10_000
    assert found.work.until is not None
    assert found.work.until.direction is Direction.DOWN
    assert (found.aim, found.deadline_seconds, found.budget_usd) == (Aim.FASTEST, 5400.0, 1000.5)
    assert (found.search.strategy, found.search.max_probes, found.search.options) == ("random", 5, {"k": 2})
    assert (found.probe.max_seconds, found.probe.warmup_seconds) == (60.0, 0.0)
    assert found.checkpoint.path == "out/checkpoints"
    assert found.outputs == ("model/*", "metrics.json")
    assert (found.platform, found.cloud) == ("pytorch", "replay")
    assert found.on_event == (Recipient(Channel.WEBHOOK, "https://example.org/hook"),)
    assert loaded.notices == ()
    assert from_json(Job, to_json(found)) == found


def test_overrides_win_over_the_file_and_defaults_yield_to_it() -> None:
    options: dict[str, Any] = {
        "overrides": {"budget": "$5", "search.max_probes": 3, "goal": None, "num_nodes": "2"},
        "defaults": {"cloud": "ec2", "goal": "cheapest"},
    }
    found = job(with_run("budget: 9\nsearch: random\ngoal: fastest"), **options)
    assert (found.budget_usd, found.aim, found.cloud, found.nodes) == (5, Aim.FASTEST, "ec2", NodeRange(2, 2))
    assert (found.search.strategy, found.search.max_probes) == ("random", 3)


def test_a_python_mapping_is_a_job_too(tmp_path: Path) -> None:
    loaded = job_from_dict(
        {
            "name": "api",
            "run": "x",
            "workdir": tmp_path,
            "deadline": timedelta(hours=2),
            "batch_size": [8, 16],
            "num_nodes": 3,
        }
    )
    assert (loaded.job.deadline_seconds, loaded.job.workdir) == (7200.0, str(tmp_path))
    moment = datetime.fromtimestamp(NOON, UTC)
    assert job_from_dict({"run": "x", "deadline": moment}, now=NOON - 5).job.deadline_at == NOON
    with pytest.raises(InvalidJobError, match="job: unknown key 'nmae'"):
        job_from_dict({"run": "x", "nmae": "y"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"run: \xff\xfe", "line 1: this is not text in UTF-8"),
        (b"\x7fELF\0\0\0", "something larger or binary"),
        (b"#" * 1_000_002, "something larger or binary"),
    ],
)
def test_a_binary_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(content)
    with pytest.raises(InvalidJobError, match=message):
        load_job(file)


def test_a_file_that_is_not_there_or_is_a_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match="There is no job file"):
        load_job(tmp_path / "gone.yaml")
    with pytest.raises(InvalidJobError, match="cannot be read: Is a directory"):
        load_job(tmp_path)


KEYS = [
    "name", "run", "setup", "workdir", "envs", "secrets", "file_mounts", "outputs", "num_nodes", "resources",
    "work", "batch_size", "goal", "deadline", "budget", "search", "probe", "checkpoint", "progress", "platform",
    "cloud", "config", "cpus", "memory", "accelerators", "any_of", "ordered", "infra", "use_spot", "samples",
    "epochs", "dataset_size", "until", "metric", "value", "strategy", "options", "kinds", "path", "pattern", "A",
]  # fmt: skip


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**300, max_value=10**320),
    st.floats(),
    st.text(max_size=12),
    st.text(alphabet="\ud83d\ude80x", max_size=3),
    st.sampled_from(["1..8", "6h", "$5", "A100:8", "4+", "2030-01-01T00:00Z", "(?P<step>", "~", "~x/y", "x" * 300]),
)


DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


def loads_or_complains(text: str) -> None:
    with contextlib.suppress(InvalidJobError):
        assert isinstance(parse_job(text), LoadedJob)


@FUZZ
@given(st.dictionaries(st.sampled_from(KEYS), DATA, max_size=8))
def test_any_data_under_our_keys_loads_or_is_refused(data: dict[str, Any]) -> None:
    loads_or_complains(json.dumps(data))
    with contextlib.suppress(InvalidJobError):
        job_from_dict(data)


@FUZZ
@given(st.text(alphabet="abr:un \n-[]{}&*!|>'\"#%@,?<.~0123\t\\xU\x85\ufeff", max_size=60))
def test_any_text_loads_or_is_refused(text: str) -> None:
    loads_or_complains(text)


@FUZZ
@given(st.integers(0, len(SKYPILOT) - 1), st.text(max_size=3), st.integers(0, 5))
def test_any_damage_to_a_good_file_loads_or_is_refused(at: int, inserted: str, dropped: int) -> None:
    loads_or_complains(SKYPILOT[:at] + inserted + SKYPILOT[at + dropped :])
