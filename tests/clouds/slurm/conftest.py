"""A small Slurm cluster on this computer, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.clouds.slurm.settings import SlurmSettings
from slurm_cluster import SlurmCluster, why_not


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[SlurmCluster]:
    """Three nodes, for all tests of a process."""
    if why := why_not():
        pytest.skip(why)
    cluster = SlurmCluster()
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(running_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """With nothing on it."""
    monkeypatch.setenv("SLURM_CONF", str(running_cluster.conf))
    running_cluster.reset()
    return running_cluster


@pytest.fixture
def slurm_settings(cluster: SlurmCluster, tmp_path: Path) -> SlurmSettings:
    """How to use it; what is lost shows soon."""
    settings = SlurmSettings(folder=str(tmp_path / "shared"), prices=str(cluster.prices))
    return replace(settings, wait_seconds=60.0, lost_seconds=15.0, lease_seconds=120.0)
