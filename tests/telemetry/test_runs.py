"""A job is one run of MLflow, whoever drives it, and nothing is written without the variable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcd.core.run import JobState
from mlcd.errors import MissingExtraError
from mlcd.settings import Settings
from mlcd.store import Store, open_store
from mlcd.telemetry import runs
from stories import SUBMITTED, record, training

pytest.importorskip("mlflow", reason="MLflow is not installed")
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

JOB = "j-7f3a"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'mlcd.db'}")
    opened.add_job(record(JobState.TRAINING, confirmed=True))
    yield opened
    opened.close()


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    found = (tmp_path / "mlruns").as_uri()
    monkeypatch.setenv(runs.VARIABLE, found)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    return found


def observe(store: Store, tmp_path: Path) -> None:
    seen = runs.open_runs(store, Settings(home=tmp_path), store.job(JOB), {"KEY": "s3cret"})
    assert seen is not None
    seen.look()
    seen.look()
    seen.close()


def all_runs(uri: str) -> list[Run]:
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("mlcd")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def test_parameters_metrics_and_the_model_are_written(store: Store, tmp_path: Path, uri: str) -> None:
    store.put_live(JOB, training().live)
    store.change_job(JOB, state=JobState.SUCCEEDED, ended_at=SUBMITTED + 1.0)
    observe(store, tmp_path)
    (run,) = all_runs(uri)
    assert run.info.status == "FINISHED"
    assert run.data.params["strategy"] == "auto"
    assert run.data.metrics["loss"] == pytest.approx(1.234)
    assert run.data.tags["mlcd.model"].endswith(f"jobs/{JOB}/model")
    assert run.data.tags["mlcd.deployment"] == str(store.job(JOB).deployment)
    assert "value-that-is-not-shown" not in str(run.data.params) + str(run.data.tags)


def test_a_value_that_stays_is_written_once(store: Store, tmp_path: Path, uri: str) -> None:
    store.put_live(JOB, training().live)
    observe(store, tmp_path)
    (run,) = all_runs(uri)
    assert len(MlflowClient(tracking_uri=uri).get_metric_history(run.info.run_id, "loss")) == 1


def test_a_controller_that_takes_over_goes_on_in_the_same_run(store: Store, tmp_path: Path, uri: str) -> None:
    store.change_job(JOB, state=JobState.STOPPED)
    observe(store, tmp_path)
    assert [run.info.status for run in all_runs(uri)] == ["KILLED"]
    store.change_job(JOB, state=JobState.FAILED)
    observe(store, tmp_path)
    assert [run.info.status for run in all_runs(uri)] == ["FAILED"]


def test_nothing_is_opened_without_the_variable(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(runs.VARIABLE, raising=False)
    assert runs.open_runs(store, Settings(home=tmp_path), store.job(JOB), {}) is None


def test_a_missing_package_is_named(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runs.VARIABLE, "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    with pytest.raises(MissingExtraError) as caught:
        runs.open_runs(store, Settings(home=tmp_path), store.job(JOB), {})
    assert "mlcd[mlflow]" in caught.value.hint
