"""The examples train to what their READMEs state."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.core.jobfile import load_job
from mlcd.core.run import JobState
from mlcd.settings import Settings
from mlcd.worker import complete_checkpoints, write_bundle
from worker.programs import finish, free_port, wait_for
from worker.sessions import lines

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = ["digits", "digits_plain", "char_rnn"]


def train(name: str, folder: Path, **variables: object) -> subprocess.Popen[str]:
    """Start an example as a cloud would, in an empty folder."""
    env = {
        **{variable: value for variable, value in os.environ.items() if not variable.startswith("MLCD_")},
        **write_bundle(folder / "bundle"),
        "OMP_NUM_THREADS": "1",
        "MLCD_TASK_ID": "task-1",
        "MLCD_PROGRESS_DIR": str(folder / "progress"),
        "MLCD_CHECKPOINT_DIR": str(folder / "checkpoints"),
        "MLCD_OUTPUT_DIR": str(folder / "outputs"),
        **{variable: str(value) for variable, value in variables.items()},
    }
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / name / "train.py")],
        env=env,
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def metrics(folder: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((folder / "outputs" / "metrics.json").read_text())
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_job_file_loads_without_a_word(name: str) -> None:
    loaded = load_job(EXAMPLES / name / "job.yaml")
    assert (loaded.job.platform, loaded.job.workdir) == ("pytorch", str(EXAMPLES / name))
    assert loaded.job.work is not None


@pytest.mark.slow
def test_digits_reaches_97_percent_after_a_stop_in_the_middle(tmp_path: Path) -> None:
    work = 40 * 1437
    first = train("digits", tmp_path, MLCD_WORK_SAMPLES=work)
    wait_for((tmp_path / "progress" / "rank-0.jsonl").exists)
    first.send_signal(signal.SIGTERM)
    finish(first)
    (saved,) = complete_checkpoints(tmp_path / "checkpoints")
    assert 0 < saved.facts.samples < work

    finish(train("digits", tmp_path, MLCD_WORK_SAMPLES=work, MLCD_SAMPLES_BEFORE=saved.facts.samples))
    assert metrics(tmp_path)["test_accuracy"] >= 0.97
    assert complete_checkpoints(tmp_path / "checkpoints")[0].facts.samples >= work
    assert (tmp_path / "outputs" / "model.pt").stat().st_size > 0


@pytest.mark.slow
def test_digits_trains_on_two_ranks(tmp_path: Path) -> None:
    group = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "WORLD_SIZE": 2,
        "GLOO_SOCKET_IFNAME": "lo",
    }
    work = {"MLCD_WORK_SAMPLES": 5 * 1437, "MLCD_LOCAL_BATCH_SIZE": 32}
    ranks = [train("digits", tmp_path, RANK=rank, **group, **work) for rank in range(2)]
    for rank in ranks:
        finish(rank)
    first, second = (lines(tmp_path / "progress", rank)[-1] for rank in range(2))
    assert first["steps"] == second["steps"]
    assert first["samples"] + second["samples"] >= 5 * 1437
    assert metrics(tmp_path)["test_accuracy"] > 0.6


@pytest.mark.slow
def test_plain_digits_is_counted_its_metrics_are_shown_and_it_reaches_95_percent(tmp_path: Path) -> None:
    client = Client(Settings(home=tmp_path / "home"))
    job = client.load(EXAMPLES / "digits_plain" / "job.yaml", overrides={"search": {"max_probes": 1}})
    job_id = client.submit(job)
    client.confirm(job_id)
    view = client.drive(job_id)
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert view.samples_done == 40 * 1437
    shown = client.story(job_id).metrics
    assert {point.name for point in shown} >= {"loss", "test_accuracy"}
    assert [point.value for point in shown if point.name == "test_accuracy"][-1] >= 0.95
    assert (Path(view.model) / "model.pt").exists()
    assert "mlcd" not in (EXAMPLES / "digits_plain" / "train.py").read_text().split('"""', 2)[2]
    client.close()


@pytest.mark.slow
def test_char_rnn_stops_by_itself_at_its_loss(tmp_path: Path) -> None:
    target = '{"metric": "val_loss", "value": 1.6, "direction": "down"}'
    finish(train("char_rnn", tmp_path, MLCD_TARGET=target, MLCD_WORK_SAMPLES=64000), seconds=300)
    assert metrics(tmp_path)["val_loss"] <= 1.6
    assert lines(tmp_path / "progress")[-1]["samples"] < 48000
