"""Job files: what SkyPilot takes loads unchanged, ours adds keys, and every mistake is named with its line."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlcd.core.goal import Aim
from mlcd.core.job import BatchSizes, Direction, Job, NodeRange, Resources
from mlcd.core.jobfile import LoadedJob, job_from_dict, load_job, parse_job
from mlcd.core.notices import Channel, Recipient
from mlcd.core.serial import from_json, to_json
from mlcd.errors import InvalidJobError

NOON = datetime(2026, 11, 17, 12, 0, tzinfo=UTC).timestamp()


def job(text: str, **options: Any) -> Job:
    return parse_job(text, **options).job


def complaint(text: str, **options: Any) -> str:
    with pytest.raises(InvalidJobError) as caught:
        parse_job(text, **options)
    return caught.value.message


def with_run(line: str) -> str:
    return f"run: python train.py\n{line}\n"


def test_the_shortest_job_has_a_command_and_the_name_of_its_file() -> None:
    found = job("run: python train.py", source="jobs/digits.yaml")
    assert found == Job(name="digits", run="python train.py")


SKYPILOT = """\
name: my-task
workdir: .
num_nodes: 4
resources:
  infra: aws/us-east-1/us-east-1a
  accelerators: H100:8
  accelerator_args: {runtime_version: tpu-vm-base}
  cpus: 4+
  memory: 32+
  instance_type: p3.8xlarge
  use_spot: false
  disk_size: 256
  disk_tier: medium
  network_tier: best
  max_hourly_cost: 10.0
  image_id: ami-0868a20f5a3bf9702
  ports: [8081, 10022-10040]
  labels: {my-label: my-value}
  autostop: {idle_minutes: 10, wait_for: none}
  job_recovery: none
envs:
  MY_BUCKET: skypilot-temp-gcs-test
  LEARNING_RATE: 1e-4
  DEBUG: true
  SEED: 007
secrets:
  HF_TOKEN: abc
  WANDB_API_KEY: null
file_mounts:
  /remote/path: ./data
  /checkpoints: {source: s3://existing-bucket, mode: MOUNT}
  /datasets-s3: s3://my-awesome-dataset
setup: |
  pip install -r requirements.txt
run: |
  python train.py --seed ${SEED}
config: {kubernetes: {provision_timeout: 600}}
volumes: {/mnt/data: my-volume}
service: {readiness_probe: /, replicas: 2}
"""


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


def test_what_is_not_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    notices = parse_job(SKYPILOT, base=tmp_path, environ={"WANDB_API_KEY": "xyz"}).notices
    assert "resources.ports is not used by mlcd." in notices
    assert "service is not used by mlcd." in notices
    assert any("/checkpoints" in notice for notice in notices)
    assert len(notices) == 2 + 9 + 3


def test_every_alternative_is_completed_by_what_is_said_for_all() -> None:
    found = job(
        """
run: x
resources:
  cpus: 8
  use_spot: yes
  any_of:
    - {infra: aws/us-west-2, accelerators: H100}
    - {cloud: GCP, accelerators: [A100:2, V100], cpus: 16+, ports: 80}
"""
    )
    assert found.resources == (
        Resources(("ec2",), ("us-west-2",), (), (("H100", 1.0),), 8.0, True, use_spot=True),
        Resources(("gcp",), (), (), (("A100", 2.0), ("V100", 1.0)), 16.0, False, use_spot=True),
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("A100:8", (("A100", 8.0),)),
        ("A100", (("A100", 1.0),)),
        ("{A100: 8}", (("A100", 8.0),)),
        ("{A100:1, V100:2}", (("A100", 1.0), ("V100", 2.0))),
        ("[L4:1, 'H100:0.5']", (("L4", 1.0), ("H100", 0.5))),
    ],
)
def test_accelerators_are_read_in_every_form(written: str, read: Any) -> None:
    assert job(with_run(f"resources: {{accelerators: {written}}}")).resources[0].accelerators == read


@pytest.mark.parametrize(
    ("written", "gib", "exact"),
    [("32", 32, True), ("32+", 32, False), ("64GB+", 64, False), ("512MB", 0.5, True), ("1tb", 1024, True)],
)
def test_memory_has_units(written: str, gib: float, exact: bool) -> None:
    found = job(with_run(f"resources: {{memory: {written}}}")).resources[0]
    assert (found.min_memory_gib, found.exact_memory) == (gib, exact)


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


@pytest.mark.parametrize(
    ("limits", "aim"),
    [
        ("", Aim.BALANCED),
        ("deadline: 6h", Aim.CHEAPEST),
        ("budget: 100", Aim.FASTEST),
        ("{deadline: 6h, budget: 100}", Aim.CHEAPEST),
        ("goal: balanced\nbudget: 5", Aim.BALANCED),
    ],
)
def test_the_aim_follows_from_the_limits_unless_it_is_said(limits: str, aim: Aim) -> None:
    text = limits.strip("{}").replace(", ", "\n")
    assert job(with_run(text)).aim is aim


def test_a_deadline_on_the_clock_is_kept_and_counted_from_now() -> None:
    found = job(with_run("deadline: 2026-11-17T14:00+01:00"), now=NOON - 600)
    assert (found.deadline_at, found.deadline_seconds) == (NOON + 3600, 4200.0)
    quoted = job(with_run("deadline: '2026-11-17 13:00:00Z'"), now=NOON)
    assert quoted.deadline_seconds == 3600.0


def test_a_range_of_batch_sizes_never_passes_its_upper_end() -> None:
    assert job(with_run("batch_size: 48..400")).batch_sizes.choices == (48, 96, 192, 384)
    assert job(with_run("batch_size: [128, 64, 128]")).batch_sizes.choices == (64, 128)
    assert job(with_run("batch_size: 256")).batch_sizes.fixed == 256


@pytest.mark.parametrize(
    ("metric", "direction", "told"),
    [
        ("loss", Direction.DOWN, False),
        ("eval/perplexity", Direction.DOWN, False),
        ("top1_err", Direction.DOWN, False),
        ("accuracy", Direction.UP, False),
        ("f1", Direction.UP, False),
        ("zest", Direction.UP, True),
    ],
)
def test_the_name_of_a_metric_says_which_way_is_better(metric: str, direction: Direction, told: bool) -> None:
    loaded = parse_job(with_run(f"work: {{samples: 10, until: {{metric: {metric}, value: 1}}}}"))
    assert loaded.job.work is not None
    assert loaded.job.work.until is not None
    assert loaded.job.work.until.direction is direction
    assert bool(loaded.notices) is told


@pytest.mark.parametrize(
    ("run", "script", "platform"),
    [
        ("torchrun main.py", "", "pytorch"),
        ("python3 -u train.py --lr 1", "import torch.nn as nn\n", "pytorch"),
        ("python -m pkg.train", "from torch import nn\n", "pytorch"),
        ("python train.py", "import tensorflow as tf\n", "tensorflow"),
        ("python train.py", "import numpy\nfrom keras import layers\n", "tensorflow"),
        ("python train.py", "import jax.numpy as jnp\n", "jax"),
        ("python train.py", "import mxnet as mx\n", "mxnet"),
        ("python train.py", "import jax\nimport torch\n", "pytorch"),
        ("python train.py", "import numpy\n", "command"),
        ("python gone.py", "import torch\n", "command"),
    ],
)
def test_the_platform_is_seen_from_the_script(tmp_path: Path, run: str, script: str, platform: str) -> None:
    (tmp_path / "pkg").mkdir()
    for file in (tmp_path / "train.py", tmp_path / "pkg" / "train.py"):
        file.write_text(script)
    assert job(f"workdir: .\nrun: {run}", base=tmp_path).platform == platform


def test_paths_are_seen_from_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    file = tmp_path / "digits.yaml"
    file.write_text("workdir: ${WHERE}\nrun: x\nenvs: {WHERE: nowhere}\n")
    found = load_job(file, envs={"WHERE": "code"}).job
    assert (found.name, found.workdir, found.envs) == ("digits", str(tmp_path / "code"), {"WHERE": "code"})


def test_overrides_win_over_the_file_and_defaults_yield_to_it() -> None:
    options: dict[str, Any] = {
        "overrides": {"budget": "$5", "search.max_probes": 3, "goal": None, "num_nodes": "2"},
        "defaults": {"cloud": "ec2", "goal": "cheapest"},
    }
    found = job(with_run("budget: 9\nsearch: random\ngoal: fastest"), **options)
    assert (found.budget_usd, found.aim, found.cloud, found.nodes) == (5, Aim.FASTEST, "ec2", NodeRange(2, 2))
    assert (found.search.strategy, found.search.max_probes) == ("random", 3)


def test_a_wrong_override_is_not_blamed_on_a_line() -> None:
    message = complaint(with_run("budget: 9"), overrides={"budget": "-1"})
    assert message.startswith("job.yaml, with the options given: budget: '-1' is not an amount")


def test_secrets_come_from_file_caller_and_environment_and_stay_out_of_the_job() -> None:
    loaded = parse_job(
        with_run("secrets: {A: from-file, B: null, C: from-file}\nenvs: {A: plain}"),
        secrets={"C": "from-caller", "D": "added"},
        environ={"B": "from-environment"},
    )
    assert loaded.secrets == {"A": "from-file", "B": "from-environment", "C": "from-caller", "D": "added"}
    assert loaded.job.secret_names == ("A", "B", "C", "D")
    assert "from-" not in to_json(loaded.job)
    assert parse_job(with_run("secrets: [B]"), environ={"B": "1"}).secrets == {"B": "1"}
    assert parse_job("run: x", secrets={"E": "1"}).job.secret_names == ("E",)


def test_a_wrong_secret_is_not_shown() -> None:
    message = complaint(with_run("secrets: {A: [hunter2]}\nnum_node: 1"))
    assert "secrets.A: it is not a text" in message
    assert "hunter2" not in message


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
    ("line", "message"),
    [
        ("num_node: 4", "unknown key 'num_node'. Did you mean 'num_nodes'?"),
        ("accelerators: A100", "unknown key 'accelerators'. It belongs under 'resources'."),
        (
            "resources: {acelerators: A100}",
            "unknown key 'acelerators' in 'resources'. Did you mean 'accelerators'?",
        ),
        (
            "resources: {any_of: [{cpu: 4}]}",
            "unknown key 'cpu' in 'resources.any_of[0]'. Did you mean 'cpus'?",
        ),
        ("work: {sample: 4}", "unknown key 'sample' in 'work'. Did you mean 'samples'?"),
        (
            "work: {samples: 1, until: {metric: a, value: 1, dir: up}}",
            "unknown key 'dir' in 'work.until'. Did you mean 'direction'?",
        ),
        ("num_nodes: 8..1", "num_nodes: '8..1' is upside down; write '1..8'."),
        ("num_nodes: 0", "num_nodes: 0 is not a whole number of nodes or a range such as 1..8."),
        ("num_nodes: 0..4", "num_nodes: '0..4' begins below one."),
        ("num_nodes: 1.5", "num_nodes: 1.5 is not a whole number"),
        ("num_nodes: many", "num_nodes: 'many' is not a whole number"),
        ("num_nodes: true", "num_nodes: true is not a whole number"),
        ("num_nodes: [1, 2]", "num_nodes: a list is not a whole number"),
        ("batch_size: 512..32", "batch_size: '512..32' is upside down"),
        ("batch_size: []", "batch_size: the list is empty."),
        ("batch_size: [32, -1]", "batch_size: -1 is not a batch size"),
        ("goal: fast", "goal: 'fast' is not a goal. Did you mean 'fastest'?"),
        ("goal: quickest", "goal: 'quickest' is not a goal. Known: balanced, cheapest, fastest."),
        ("epochs: 3", "unknown key 'epochs'. It belongs under 'work'."),
        ("metric: loss", "unknown key 'metric'. It belongs under 'work.until'."),
        ("work: {samples: 3, budget: 5}", "It belongs at the top of the file, not under 'work'."),
        ("deadline: soon", "deadline: 'soon' is not a duration such as '90s'"),
        ("deadline: tomorrow", "or '2d', nor a clock time with its zone such as '2026-11-17T12:00+01:00'."),
        ("deadline: -6h", "deadline: '-6h' is not a duration"),
        ("on_nan: ignore", "on_nan: 'ignore' is neither 'warn' nor 'stop'"),
        ("progress: {hang_seconds: -1}", "progress.hang_seconds: '-1' is not a duration"),
        ("deadline: .nan", "deadline: nan is not a duration"),
        ("deadline: 2020-01-01T00:00Z", "deadline: '2020-01-01T00:00Z' is in the past."),
        ("deadline: 2030-01-01T00:00", "names no time zone"),
        ("deadline: 2030-13-01T00:00Z", "deadline: '2030-13-01T00:00Z' is not a clock time"),
        ("budget: -5", "budget: -5 is not an amount of US dollars"),
        ("budget: 0", "budget: 0 is not an amount of US dollars"),
        ("budget: .nan", "budget: nan is not an amount of US dollars"),
        ("budget: .inf", "budget: the number is too large"),
        ("budget: 1e400", "budget: the number is too large"),
        ("batch_size: 10_000_000_000_000_000", "batch_size: the number is too large"),
        ("deadline: 9000000h", "deadline: '9000000h' is too long a duration"),
        ("budget: lots", "budget: 'lots' is not an amount of US dollars"),
        ("work: {epochs: 3}", "work: 'epochs' needs 'dataset_size'"),
        ("work: {samples: 3, epochs: 3, dataset_size: 1}", "work: there is both 'samples' and 'epochs'"),
        ("work: {until: {metric: acc, value: 1}}", "as the most to train before the target is reached"),
        ("work: {samples: 1, until: {metric: acc}}", "work.until.value: 'value' is missing"),
        (
            "work: {samples: 1, until: {metric: a, value: 1, direction: left}}",
            "'left' is neither 'up' nor 'down'",
        ),
        ("work: 5", "work: a mapping of keys is expected here"),
        ("search: {kinds: [gpu]}", "search.kinds: 'gpu' is neither 'vm' nor 'function'"),
        ("search: {max_probes: 0}", "search.max_probes: 0 is not a whole number greater than zero"),
        ("search: {options: 4}", "search.options: a mapping is expected here"),
        ("probe: {min_seconds: 90, max_seconds: 60}", "probe: min_seconds (90) is above max_seconds (60)"),
        ("probe: {interval_share: 5}", "probe.interval_share: 5 is not a share between 0 and 1"),
        ("checkpoint: /tmp/x", "checkpoint: '/tmp/x' is not a path inside the working directory"),
        ("outputs: ../model", "outputs: '../model' is not a path inside the working directory"),
        ("progress: 'step ('", "progress: 'step (' is not a regular expression"),
        ("progress: 'step (.*)'", "progress: name what is read with groups"),
        ("workdir: ./gone", "workdir: there is no folder"),
        ("workdir: {url: https://x.org/a.git, ref: main}", "workdir: a repository is not fetched by mlcd"),
        ("workdir: ~no-such-user-here/x", "names no home folder"),
        ("file_mounts: {/a: ./gone}", "file_mounts./a: there is nothing at"),
        ("file_mounts: {a: 's3://'}", "is not of the form s3://bucket/path"),
        ("envs: {A: null}", "envs.A: it has no value"),
        ("envs: {'A-B': 1}", "envs.A-B: 'A-B' cannot be the name of an environment variable"),
        ("resources: {cpus: lots}", "resources.cpus: 'lots' is not a number of CPUs"),
        ("resources: {memory: 3XB}", "resources.memory: '3XB' is not an amount of memory"),
        ("resources: {accelerators: 'A100:x'}", "resources.accelerators: 'x' is not a count, in 'A100:x'"),
        (
            "resources: {infra: aws, cloud: aws}",
            "resources: there is both 'cloud' and 'infra'; leave one out",
        ),
        ("resources: {use_spot: maybe}", "resources.use_spot: 'maybe' is neither true nor false"),
        ("resources: [aws]", "resources: a mapping of keys is expected here"),
        ("name: ' '", "name: it is blank"),
        ("name: [a]", "name: a list is not a text"),
        ("setup: !!python/object:os.system x", "the tag 'tag:yaml.org,2002:python/object:os.system'"),
        ("run: again", "the key 'run' is here a second time."),
        ("? [a]\n: b", "a key must be a word"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(tmp_path: Path, line: str, message: str) -> None:
    found = complaint(with_run(line), base=tmp_path)
    assert found.startswith("job.yaml, line 2: ")
    assert message in found
    assert "\n" not in found


def test_mistakes_come_in_the_order_of_their_lines() -> None:
    told = complaint("goal: quick\nepochs: 3\nwork: {samples: x}\nbudget: lots\nnum_nodes: 0\n").splitlines()
    lines = [line.split(":")[0] for line in told]
    assert lines == [*(f"job.yaml, line {number}" for number in range(1, 6)), "job.yaml"]
    assert "'run' is missing" in told[-1]


def test_every_wrong_entry_of_a_mapping_is_told_with_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    text = "run: x\nenvs:\n  A: null\n  B: 1\n  C-D: 2\nfile_mounts:\n  a: ./gone\n  b: ./here\n  c: ./away\n"
    told = complaint(text, base=tmp_path).splitlines()
    assert [line.partition(" ")[2].split(": ")[:2] for line in told] == [
        ["line 3", "envs.A"],
        ["line 5", "envs.C-D"],
        ["line 7", "file_mounts.a"],
        ["line 9", "file_mounts.c"],
    ]


def test_accelerators_may_be_asked_for_by_skypilots_other_name() -> None:
    job = parse_job(with_run("resources: {gpus: 'H100:8', any_of: [{use_spot: true}, {gpus: A100}]}")).job
    assert [each.accelerators for each in job.resources] == [(("H100", 8.0),), (("A100", 1.0),)]
    both = complaint(with_run("resources: {gpus: H100, accelerators: A100}"))
    assert "resources: there is both 'gpus' and 'accelerators'; leave one out" in both


def test_all_mistakes_are_told_at_once_each_with_its_line() -> None:
    found = complaint("name: x\nnum_node: 4\nbudget: -1\nresources:\n  cpu: 4\nbudget: 3\n").splitlines()
    assert len(found) == 5
    assert {line.partition(":")[0] for line in found} == {
        "job.yaml",
        "job.yaml, line 2",
        "job.yaml, line 3",
        "job.yaml, line 5",
        "job.yaml, line 6",
    }
    assert "job.yaml: 'run' is missing: the command that trains, such as 'run: python train.py'." in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("# nothing\n", "the file is empty"),
        ("null", "the file is empty"),
        ("just words", "line 1: a job file is a list of 'key: value' lines"),
        ("- a\n- b", "line 1: a job file is a list of 'key: value' lines"),
        ("{}", "'run' is missing"),
        ("run: x\n  bad: y", "line 2: this is not YAML"),
        ("run: 'x", "this is not YAML"),
        ("run: x\n---\nrun: y", "one document; '---' begins another"),
        ("run: *x", "this is not YAML: found undefined alias"),
        ("run: \x01", "this is not YAML"),
        ("[" * 5000, "nested too deeply"),
        ("a: &a [x, *a]\nrun: x", "too many values"),
    ],
)
def test_what_is_no_job_file_is_said(text: str, message: str) -> None:
    assert message in complaint(text)


def test_aliases_of_aliases_do_not_fill_the_memory() -> None:
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "too many values" in complaint("\n".join(layers))


def test_characters_escaped_as_json_does_are_read_and_halves_are_refused() -> None:
    assert job('{"run": "x", "name": "\\ud83d\\ude80"}').name == "🚀"
    assert complaint('{"run": "x", "name": "\\ud83d"}') == "job.yaml, line 1: it holds half a character."
    with pytest.raises(InvalidJobError, match="half a character"):
        job_from_dict({"run": "x", "goal": "\ud83d"})


def test_a_path_too_long_to_exist_is_not_there() -> None:
    assert "there is no folder" in complaint(with_run(f"workdir: {'x' * 300}"))


def test_anchors_and_merges_work() -> None:
    found = job("run: x\nenvs: &base {A: '1', B: '2'}\nsecrets:\n  <<: *base\n  B: '3'\n")
    assert found.secret_names == ("A", "B")


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
    st.sampled_from(
        ["1..8", "6h", "$5", "A100:8", "4+", "2030-01-01T00:00Z", "(?P<step>", "~", "~x/y", "x" * 300]
    ),
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


def test_batch_sizes_may_be_taken_in_passes_and_the_learning_rate_may_follow() -> None:
    text = "run: a\nbatch_size: {sizes: 32..128, accumulate: 8}\nlearning_rate: sqrt\nelastic: false\n"
    job = parse_job(text).job
    assert job.batch_sizes.choices == (32, 64, 128)
    assert job.batch_sizes.accumulate == 8
    assert job.learning_rate.rule == "sqrt"
    assert not job.elastic
