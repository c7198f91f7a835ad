"""Every mistake is named with its line, its key and the nearest valid key."""

from __future__ import annotations

from pathlib import Path

import pytest

from job_texts import complaint, with_run


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
        (
            "servers: {count: 0}",
            "servers.count: 0 is not a whole number from 1 on, a list of them, or a range such as 1..4.",
        ),
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
        (
            "file_mounts: {a: 'builtin:digit'}",
            "file_mounts.a: no built-in data set is called 'digit'. Did you mean 'digits'?",
        ),
        ("file_mounts: {a: 'builtin:'}", "Known: breast-cancer, diabetes, digits, iris,"),
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


def test_every_wrong_entry_of_a_mapping_is_named_with_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    text = "run: x\nenvs:\n  A: null\n  B: 1\n  C-D: 2\nfile_mounts:\n  a: ./gone\n  b: ./here\n  c: ./away\n"
    told = complaint(text, base=tmp_path).splitlines()
    assert [line.partition(" ")[2].split(": ")[:2] for line in told] == [
        ["line 3", "envs.A"],
        ["line 5", "envs.C-D"],
        ["line 7", "file_mounts.a"],
        ["line 9", "file_mounts.c"],
    ]


def test_all_mistakes_are_named_at_once_each_with_its_line() -> None:
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


def test_a_wrong_override_is_not_blamed_on_a_line() -> None:
    message = complaint(with_run("budget: 9"), overrides={"budget": "-1"})
    assert message.startswith("job.yaml, with the options given: budget: '-1' is not an amount")


def test_a_wrong_secret_is_not_shown() -> None:
    message = complaint(with_run("secrets: {A: [hunter2]}\nnum_node: 1"))
    assert "secrets.A: it is not a text" in message
    assert "hunter2" not in message


def test_an_empty_mapping_lacks_what_it_needs() -> None:
    told = complaint("run: x\nwork:\n  samples: 1\n  until: {}\n").splitlines()
    assert told == [f"job.yaml, line 4: work.until.{key}: '{key}' is missing." for key in ("metric", "value")]
    assert "resources.any_of: a list is expected here" in complaint(with_run("resources: {any_of: 4}"))


@pytest.mark.parametrize("line", ["shard_mounts: data", "shard_mounts: other\nfile_mounts: {data: 's3://bucket/data'}"])
def test_only_mounts_from_buckets_can_be_divided(tmp_path: Path, line: str) -> None:
    assert "'file_mounts' has no such mount from s3://" in complaint(with_run(line), base=tmp_path)
