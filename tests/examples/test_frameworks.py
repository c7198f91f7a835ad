"""The other frameworks train on two nodes of this computer, through the client, to what their READMEs state."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcd.api import Client
from mlcd.clouds.local.settings import LocalSettings
from mlcd.core.jobfile import load_job
from mlcd.core.run import JobState
from mlcd.core.view import JobView
from mlcd.errors import InvalidJobError
from mlcd.settings import Settings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = {
    "digits_jax": "jax",
    "digits_mxnet": "mxnet",
    "digits_ps": "torch",
    "digits_tensorflow": "tensorflow",
}
PLATFORMS = {"digits_ps": "pytorch"}


def needs(*packages: str) -> None:
    """Skip, and say why, where a package is missing."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """This computer with four cores for rent, however many there are."""
    made = Client(Settings(home=tmp_path / "home", clouds=(LocalSettings(cores=4),)))
    yield made
    made.sweep(end=True, others=True)
    made.close()


def train(client: Client, name: str, **changes: Any) -> JobView:
    """The example on one deployment of one-core nodes, searched for in no time."""
    keys = {
        "name": name,
        "workdir": str(EXAMPLES / name),
        "run": "python train.py",
        "platform": PLATFORMS.get(name, NAMES[name]),
        "resources": {"instance_type": "local-1c"},
        "work": {"epochs": 20, "dataset_size": 1437},
        "batch_size": 64,
        "num_nodes": 2,
        "search": {"strategy": "random", "max_probes": 1},
        "probe": {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 5, "silent_seconds": 120},
        "envs": {"TF_CPP_MIN_LOG_LEVEL": "2"},
        **changes,
    }
    job_id = client.submit(client.load(keys))
    client.confirm(job_id)
    return client.drive(job_id)


def assert_trained(client: Client, view: JobView) -> None:
    logs = "\n".join(client.logs(view.record.id)) if view.record.state is not JobState.SUCCEEDED else ""
    assert view.record.state is JobState.SUCCEEDED, f"{view.record.error}\n{logs}"
    metrics = json.loads((Path(view.model) / "metrics.json").read_text())
    assert metrics["test_accuracy"] >= 0.9
    assert view.trials[0].measurement is not None
    assert not list(client.sweep())


@pytest.mark.parametrize("name", NAMES)
def test_the_job_file_loads_without_a_word(name: str) -> None:
    loaded = load_job(EXAMPLES / name / "job.yaml")
    assert loaded.job.platform == PLATFORMS.get(name, NAMES[name])
    assert loaded.notices == ()


def test_jax_has_no_parameter_servers(client: Client) -> None:
    with pytest.raises(InvalidJobError, match="'jax' has no topology 'ps'"):
        train(client, "digits_jax", topology="ps")


@pytest.mark.slow
def test_jax_trains_on_two_nodes(client: Client) -> None:
    needs("jax", "sklearn")
    assert_trained(client, train(client, "digits_jax"))


@pytest.mark.slow
def test_tensorflow_trains_on_two_nodes(client: Client) -> None:
    needs("tensorflow", "sklearn")
    assert_trained(client, train(client, "digits_tensorflow"))


@pytest.mark.slow
def test_tensorflow_trains_with_a_parameter_server(client: Client) -> None:
    needs("tensorflow", "sklearn")
    view = train(client, "digits_tensorflow", topology="ps", num_nodes=3)
    assert_trained(client, view)
    assert view.trials[0].deployment.servers == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "package"), [("digits_tensorflow", "tensorflow"), ("digits_ps", "torch")])
def test_a_parameter_server_may_be_smaller_than_its_worker(client: Client, name: str, package: str) -> None:
    needs(package, "sklearn")
    view = train(client, name, resources={"instance_type": "local-2c"}, servers="local-1c")
    assert_trained(client, view)
    assert str(view.trials[0].deployment) == "1 × local-2c + 1 × local-1c serving, batch 64"
    assert {"1 × local-2c", "1 × local-1c serving"} <= {line.what for line in view.bill}


@pytest.mark.slow
def test_mxnet_trains_with_a_parameter_server(client: Client) -> None:
    needs("mxnet", "sklearn")
    assert_trained(client, train(client, "digits_mxnet", topology="ps", num_nodes=3))


@pytest.mark.slow
def test_mxnet_trains_with_a_server_beside_each_worker(client: Client) -> None:
    needs("mxnet", "sklearn")
    assert_trained(client, train(client, "digits_mxnet"))


@pytest.mark.slow
def test_torch_trains_with_a_parameter_server(client: Client) -> None:
    needs("torch", "sklearn")
    view = train(client, "digits_ps", topology="ps", num_nodes=3)
    assert_trained(client, view)
    assert str(view.trials[0].deployment) == "3 × local-1c (1 serving), batch 64"
