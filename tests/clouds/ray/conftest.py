"""A small Ray cluster on this computer, for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from mlcd.clouds.ray.session import own_signals
from mlcd.clouds.ray.settings import RaySettings

QUICK = {  # seconds rather than half a minute until a dead node is known to be dead
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Three nodes of one core: two alike, the head being one of them, and one with a custom resource."""
    pytest.importorskip("ray", reason="pip install 'mlcd[ray]'")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    with own_signals():
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False, "_system_config": QUICK},
        )
    add_node(cluster)
    add_node(cluster, resources={"scratch": 1})
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()


def add_node(cluster: Any, **more: Any) -> Any:
    """One more node of one core."""
    with own_signals():
        return cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20, include_dashboard=False, **more)


@pytest.fixture
def ray_settings(cluster: Any) -> RaySettings:
    """How to reach it; what is lost shows soon."""
    return RaySettings(address=cluster.address, wait_seconds=20.0, lost_seconds=10.0, lease_seconds=120.0)
