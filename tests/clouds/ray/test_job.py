"""A whole job on a Ray cluster: searched, trained on two of its nodes, billed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.clouds.ray.settings import RaySettings
from mlcd.core.run import JobState
from mlcd.settings import Settings

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "digits"


@pytest.mark.slow
def test_a_job_trains_on_two_nodes_of_the_cluster(tmp_path: Path, ray_settings: RaySettings) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    client = Client(replace(Settings(home=tmp_path / "home"), clouds=(ray_settings,)))
    job = {
        "name": "digits",
        "workdir": str(EXAMPLE),
        "run": "python train.py",
        "cloud": "ray",
        "platform": "pytorch",
        "num_nodes": 2,
        "resources": {"instance_type": "ray-1c"},
        "work": {"epochs": 5, "dataset_size": 1437},
        "batch_size": 64,
        "search": {"strategy": "random", "max_probes": 1},
        "probe": {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 5},
    }
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    view = client.drive(job_id)
    log = "\n".join(client.logs(job_id))
    assert view.record.state is JobState.SUCCEEDED, (view.record.error, log)
    assert json.loads((Path(view.model) / "metrics.json").read_text())["test_accuracy"] > 0.6
    assert view.trials[0].measurement is not None
    assert sum(item.usd for item in view.bill) == pytest.approx(view.spent.usd)
    assert client.sweep() == []
    client.close()
