"""A job as an MLflow run: its parameters, its newest metrics and the path of its model, while it runs.

Switched on by MLFLOW_TRACKING_URI; the experiment is MLFLOW_EXPERIMENT_NAME or 'mlcd'. All controllers of a job write
into one run, found again by its tag.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any

from mlcd.core.live import Live
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.errors import MissingExtraError
from mlcd.settings import Settings
from mlcd.store import Store

VARIABLE = "MLFLOW_TRACKING_URI"
JOB_TAG = "mlcd.job_id"
LONGEST = 500  # letters of a parameter
_ENDS = {JobState.SUCCEEDED: "FINISHED", JobState.FAILED: "FAILED"}


def open_runs(store: Store, settings: Settings, record: JobRecord, _secrets: Mapping[str, str]) -> Runs | None:
    """The run of a job; None: the variable is not set."""
    uri = os.environ.get(VARIABLE)
    if not uri:
        return None
    try:
        from mlflow.tracking import MlflowClient
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{VARIABLE} is set, but MLflow is not installed.", "pip install 'mlcd[mlflow]'"
        ) from error
    model = settings.jobs / record.id / "model"
    return Runs(store, record, MlflowClient(tracking_uri=uri), str(model))


class Runs:
    """An observer that writes what is new."""

    def __init__(self, store: Store, record: JobRecord, client: Any, model: str) -> None:
        self._store = store
        self._client = client
        self._model = model
        self._job_id = record.id
        self._run_id = self._open(record)
        self._written: dict[str, float] = {}
        self._deployment = ""

    def look(self) -> None:
        """Write metrics, money and where it runs."""
        record, live = self._store.job(self._job_id), self._store.live(self._job_id)
        values = {"mlcd.spent_usd": self._store.spent(self._job_id), **_metrics(live)}
        step = int(live.samples) if live is not None else 0
        for name, value in values.items():
            if repr(self._written.get(name)) != repr(value):  # nan is not equal to itself
                self._client.log_metric(self._run_id, _safe(name), value, timestamp=int(time.time() * 1000), step=step)
                self._written[name] = value
        deployment = str(record.deployment) if record.plan is not None else ""
        if deployment != self._deployment:
            self._client.set_tag(self._run_id, "mlcd.deployment", deployment)
            self._deployment = deployment

    def close(self) -> None:
        """Write the state of the job."""
        record = self._store.job(self._job_id)
        if record.state is JobState.SUCCEEDED:
            self._client.set_tag(self._run_id, "mlcd.model", self._model)
        self._client.set_tag(self._run_id, "mlcd.state", record.state.value)
        self._client.set_terminated(self._run_id, _ENDS.get(record.state, "KILLED"))

    def _open(self, record: JobRecord) -> str:
        """The run of this job: found, or made with its parameters."""
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME") or "mlcd")
        found = self._client.search_runs([experiment], f"tags.`{JOB_TAG}` = '{record.id}'", max_results=1)
        if found:
            self._client.update_run(found[0].info.run_id, status="RUNNING")
            return str(found[0].info.run_id)
        tags = {JOB_TAG: record.id, "mlflow.source.name": "mlcd", "mlflow.user": record.owner or "mlcd"}
        made = self._client.create_run(experiment, tags=tags, run_name=record.job.name)
        for name, value in _parameters(record).items():
            self._client.log_param(made.info.run_id, name, value[:LONGEST])
        return str(made.info.run_id)

    def _experiment(self, name: str) -> str:
        known = self._client.get_experiment_by_name(name)
        return str(known.experiment_id if known is not None else self._client.create_experiment(name))


def _parameters(record: JobRecord) -> dict[str, str]:
    """What was asked for; no variable and no secret is among it."""
    job = record.job
    values = {
        "platform": job.platform,
        "cloud": record.cloud,
        "strategy": job.search.strategy,
        "goal": job.aim.value,
        "budget_usd": record.budget_usd,
        "deadline_seconds": job.deadline_seconds,
        "samples": job.work.samples if job.work else None,
        "nodes": f"{job.nodes.fewest}..{job.nodes.most}",
        "batch_sizes": ", ".join(map(str, job.batch_sizes.choices)),
    }
    return {name: str(value) for name, value in values.items() if value not in (None, "")}


def _metrics(live: Live | None) -> dict[str, float]:
    if live is None:
        return {}
    seen = {"mlcd.samples": live.samples, "mlcd.samples_per_second": live.samples_per_second}
    forecast = {} if live.total_usd is None else {"mlcd.forecast_usd": live.total_usd}
    return {**live.metrics, **seen, **forecast}


def _safe(name: str) -> str:
    """A name that MLflow takes."""
    return re.sub(r"[^\w.\-/ ]", "_", name)[:250]
