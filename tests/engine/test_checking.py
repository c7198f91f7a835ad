"""What only the registry or the cloud can tell of a job file is said with its file, line and key too."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd import registry
from mlcd.api import Client
from mlcd.core.jobfile import LoadedJob
from mlcd.errors import InvalidJobError

JOB = "run: echo hi\nplatform: command\nwork: {samples: 100}\nbatch_size: 4\n"


@pytest.mark.parametrize(
    ("wrong", "line", "key", "hint"),
    [
        ("cloud: locall", 5, "cloud", "'local'"),
        ("search: hetrbo", 5, "search.strategy", "'heterbo'"),
        ("search:\n  strategy: hetrbo", 6, "search.strategy", "'heterbo'"),
        ("search: {strategy: random, options: {kk: 3}}", 5, "search.options.kk", "'k'"),
        ("resources:\n  instance_type: local-3c", 6, "resources.instance_type", "local-"),
        ("num_nodes: 4", 5, "num_nodes", "2 or fewer"),
        ('envs: {A: "a\\0b"}', 5, "envs", ""),
    ],
)
def test_a_job_file_is_blamed_by_file_line_and_key(
    client: Client, tmp_path: Path, wrong: str, line: int, key: str, hint: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"{JOB}{wrong}\n")
    with pytest.raises(InvalidJobError) as refused:
        client.submit(client.load(file))
    assert refused.value.message.startswith(f"{file}, line {line}: {key}")
    assert hint in refused.value.hint
    assert refused.value.exit_code == 2
    assert client.views() == []


def test_what_a_strategy_may_spend_an_hour_is_a_cap_of_the_job(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"

    def capped_at(usd: str) -> LoadedJob:
        search = "search: {strategy: cost-opt, options: {usd_per_hour: %s}}"
        file.write_text(f"{JOB}num_nodes: 1..2\n{search % usd}\n")
        return client.load(file)

    with pytest.raises(
        InvalidJobError, match=r"line 6: search\.options\.usd_per_hour: No offer is left with usd_per_hour"
    ) as refused:
        client.submit(capped_at("0.000001"))
    assert "Without that demand there is: 1 × local-" in refused.value.hint
    prices = sorted({each.usd_per_hour for each in client.check(capped_at("null")).space})
    assert len(prices) > 1
    capped = capped_at(str(prices[0]))
    assert {each.usd_per_hour for each in client.check(capped).space} == {prices[0]}
    assert client.view(client.submit(capped)).record.job.resources[0].max_usd_per_hour == prices[0]
    job = {"run": "echo hi", "work": {"samples": 1}, "resources": {"max_hourly_cost": 1e-9}}
    with pytest.raises(InvalidJobError, match="No offer is left with max_hourly_cost"):
        client.check(client.load({**job, "search": {"strategy": "cost-opt", "options": {"usd_per_hour": 1}}}))


def test_a_platform_that_is_not_there_is_named_too(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB.replace("command", "comand"))
    with pytest.raises(InvalidJobError, match=r"job\.yaml, line 2: platform: No platform is called 'comand'"):
        client.check(client.load(file))


@pytest.mark.parametrize("name", registry.OPTIONAL["searchers"])
def test_a_strategy_that_is_not_installed_comes_with_its_install_line(
    client: Client, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = registry._points
    known = {each: point for each, point in read("searchers").items() if each != name}
    monkeypatch.setattr(registry, "_points", lambda group: known if group == "searchers" else read(group))
    file = tmp_path / "job.yaml"
    file.write_text(f"{JOB}search: {name}\n")
    with pytest.raises(
        InvalidJobError, match=rf"line 5: search.strategy: The search strategy '{name}' is in"
    ) as refused:
        client.submit(client.load(file))
    assert refused.value.hint.startswith("pip install 'mlcd[bench]'")


def test_work_that_is_missing_is_blamed_on_the_file(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("run: echo hi\n")
    with pytest.raises(InvalidJobError, match=r"job\.yaml: work: "):
        client.check(client.load(file))


@pytest.mark.parametrize(
    ("run", "missing"),
    [
        ("python train.py --epochs 3", "train.py"),
        ("# the training\nLR=1 exec python3 -u \\\n  src/train.py", "src/train.py"),
        ("torchrun --nproc_per_node 2 train.py", "train.py"),
        ("bash run.sh", "run.sh"),
        ("python here.py --like train.py", None),
        ("python mounted/train.py", None),
        ("python -m train", None),
        ("cd elsewhere && python train.py", None),
        ("python prepare.py'", None),
        ("./train", None),
    ],
)
def test_a_script_that_is_not_there_is_missed_before_anything_is_paid(
    client: Client, tmp_path: Path, run: str, missing: str | None
) -> None:
    (tmp_path / "here.py").touch()
    job = {
        "run": run,
        "workdir": str(tmp_path),
        "work": {"samples": 9},
        "file_mounts": {"mounted": str(tmp_path)},
    }
    if missing is None:
        assert client.check(client.load(job)).notices == ()
        return
    with pytest.raises(InvalidJobError, match=f"'{missing}' is not in the working directory"):
        client.check(client.load(job))
    (notice,) = client.check(client.load({**job, "setup": "make"})).notices
    assert missing in notice


def test_a_script_without_a_working_directory_is_nowhere(client: Client) -> None:
    with pytest.raises(InvalidJobError, match="the job has no `workdir`"):
        client.check(client.load({"run": "python train.py", "work": {"samples": 9}}))


def test_what_there_is_instead_of_an_accelerator_is_named(client: Client) -> None:
    job = {"run": "true", "work": {"samples": 9}, "resources": {"accelerators": "H100:8"}}
    with pytest.raises(InvalidJobError) as refused:
        client.check(client.load(job))
    assert "local-1c without accelerators" in refused.value.hint
    assert "none" not in refused.value.hint


def test_what_the_platform_needs_is_missed_when_the_job_is_checked(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    file = tmp_path / "job.yaml"
    file.write_text(JOB.replace("command", "spark"))
    with pytest.raises(InvalidJobError, match=r"job\.yaml, line 2: platform: .* needs (spark-class and )?java, which"):
        client.submit(client.load(file))
    assert client.views() == []
