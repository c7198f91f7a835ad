"""Whole jobs on a cluster: trained to their end, or told why they could not be started."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clouds.kubernetes.conftest import Cluster
from mlcd.api import Client
from mlcd.core.run import JobState
from mlcd.core.view import JobView
from mlcd.settings import Settings
from small_jobs import PROGRAM

pytestmark = pytest.mark.slow


class Jobs:
    """A client of the cluster, with one small job."""

    def __init__(self, folder: Path, cluster: Cluster, **settings: Any) -> None:
        self.folder = folder
        kube = replace(cluster.settings, **settings)
        self.client = Client(replace(Settings(home=folder / "home"), clouds=(kube,)))
        self.id = ""

    def run(self, **keys: Any) -> JobView:
        """The job, driven to its rest."""
        (self.folder / "code").mkdir(exist_ok=True)
        (self.folder / "code" / "train.py").write_text(textwrap.dedent(PROGRAM))
        job = {
            "name": "small",
            "workdir": str(self.folder / "code"),
            "run": "python train.py",
            "cloud": "kubernetes",
            "work": {"samples": 2000},
            "goal": "fastest",
            "search": "exhaustive",
            "num_nodes": "1..2",
            "budget": "$5",
            "probe": {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 3, "silent_seconds": 20},
            "checkpoint": {"grace_seconds": 2},
            **keys,
        }
        self.id = self.client.submit(self.client.load(job))
        self.client.confirm(self.id)
        return self.client.drive(self.id)


@pytest.fixture
def jobs(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    for name in ("kubectl", "folder"):  # for controllers, which are processes of their own
        monkeypatch.setenv(f"MLCD_KUBERNETES_{name.upper()}", getattr(cluster.settings, name))
    made = Jobs(tmp_path, cluster)
    yield made
    cluster.configure(rights=["*"])
    made.client.sweep(end=True, others=True)
    made.client.close()


def test_a_job_trains_in_pods_with_the_rights_that_the_page_names(jobs: Jobs) -> None:
    view = jobs.run(num_nodes=1)
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert jobs.client.sweep() == []
    assert view.spent.usd > 0
    assert sum(item.usd for item in view.bill) == pytest.approx(view.spent.usd)


def test_a_namespace_that_is_not_there_is_told_and_no_program_is_blamed(tmp_path: Path, cluster: Cluster) -> None:
    jobs = Jobs(tmp_path, cluster, namespace="team")
    view = jobs.run()
    assert view.record.state is JobState.FAILED
    assert "The cluster has no namespace 'team'." in view.record.error
    assert "kubectl create namespace team" in view.record.error
    assert "crashed" not in view.record.error
    jobs.client.close()


def test_a_refused_exec_is_told_and_the_job_goes_on_once_it_is_allowed(jobs: Jobs, cluster: Cluster) -> None:
    rights = cluster.rights
    cluster.forbid("create pods/exec")
    view = jobs.run(num_nodes=1)
    assert view.record.state is JobState.FAILED
    assert 'cannot create resource "pods/exec"' in view.record.error
    assert "crashed" not in view.record.error
    assert len(view.trials) == 1  # it is not paid for twice
    cluster.configure(rights=rights)
    jobs.client.resume(jobs.id)
    *_, view = jobs.client.follow(jobs.id)
    assert view.record.state is JobState.SUCCEEDED, view.record.error


def test_pods_that_never_start_are_not_called_a_budget_that_is_too_small(tmp_path: Path, cluster: Cluster) -> None:
    jobs = Jobs(tmp_path, cluster, wait_seconds=3.0)
    cluster.configure(images={"python:3.11": "slow"})
    view = jobs.run()
    assert view.record.state is JobState.FAILED
    assert "budget" not in view.record.error
    assert "no capacity" in view.record.error
    assert "ContainerCreating" in view.record.error
    assert view.spent.usd > 0  # pods held nodes meanwhile
    jobs.client.close()
