"""A new user's own scripts, none of which knows mlcd: counted exactly, their metrics shown, their targets kept."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.clouds.local.settings import LocalSettings
from mlcd.core.run import AttemptEnd, JobState
from mlcd.core.view import JobView
from mlcd.settings import Settings

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")
pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parent / "first_hour"
WHEEL = "epoch_words-1.0-py3-none-any.whl"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    made = Client(Settings(home=tmp_path / "home", clouds=(LocalSettings(usd_per_core_hour=1.0, cores=2),)))
    yield made
    made.sweep(end=True, others=True)
    made.close()


def train(client: Client, name: str, tmp_path: Path) -> JobView:
    """The job file word for word, in a copy of the script's folder."""
    folder = tmp_path / name
    shutil.copytree(SCRIPTS / name, folder)
    if name == "setup":
        write_wheel(folder / WHEEL)
    job_id = client.submit(client.load(folder / "job.yaml"))
    client.confirm(job_id)
    view = client.drive(job_id)
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert any(Path(view.model).iterdir())
    return view


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("plain", "loss"),
        ("two_optimizers", "g_loss"),
        ("iterable", "loss"),
        ("numpy", "loss"),
        ("bash", "loss"),
        ("stdin", "loss"),
        ("setup", "loss"),
    ],
)
def test_a_script_is_counted_exactly_and_its_metrics_are_shown(
    client: Client, tmp_path: Path, name: str, metric: str
) -> None:
    view = train(client, name, tmp_path)
    assert view.record.job.work is not None
    assert view.samples_done == view.record.job.work.samples
    readings = [point.value for point in client.store.metrics(view.record.id, 1000) if point.name == metric]
    if view.run.attempts:  # else a probe did all the work, and there was no training to draw a curve of
        assert len(readings) >= 3
        assert readings[-1] < readings[0] or name == "two_optimizers"


def test_a_target_on_the_validation_set_ends_the_training(client: Client, tmp_path: Path) -> None:
    view = train(client, "validation", tmp_path)
    (attempt,) = view.run.attempts
    assert attempt.end is AttemptEnd.FINISHED
    assert "val_accuracy reached its target" in attempt.why
    assert view.record.job.work is not None
    assert view.samples_done < view.record.job.work.samples, "the rest is not paid for"


def write_wheel(path: Path) -> None:
    """A package of one function, as `pip install -r requirements.txt` takes it without a network."""
    info = "epoch_words-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("epoch_words.py", 'def in_words(number):\n    return f"{number:,}"\n')
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: epoch-words\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", f"epoch_words.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
