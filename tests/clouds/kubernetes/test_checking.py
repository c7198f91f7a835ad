"""What `mlcd check kubernetes` says of a cluster and the rights there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clouds.kubernetes.conftest import Cluster, documented_rights
from mlcd.clouds.accounts import check_cloud
from mlcd.clouds.kubernetes.checking import NEEDED, USEFUL
from mlcd.core.view import Finding
from mlcd.settings import Settings


def findings(cluster: Cluster, **settings: str) -> dict[str, Finding]:
    """By what they are of."""
    settings_there = replace(cluster.settings, **settings)
    whole = replace(Settings(home=cluster.root.parent), clouds=(settings_there,))
    return {found.what: found for found in check_cloud(whole, "kubernetes")}


def test_every_right_of_the_page_is_tried() -> None:
    tried = {
        f"{verb} {resource.removesuffix('.batch')}{f'/{sub}' if sub else ''}"
        for verb, resource, sub in (*NEEDED, USEFUL)
    }
    assert tried == set(documented_rights())


def test_a_cluster_with_all_rights_is_well(cluster: Cluster) -> None:
    found = findings(cluster)
    assert all(one.ok for one in found.values()), found
    assert "small: 2 nodes" in found["pools"].detail
    assert cluster.objects("jobs") == []


@pytest.mark.parametrize("right", documented_rights(optional=False))
def test_a_right_that_is_missing_is_named(cluster: Cluster, right: str) -> None:
    cluster.forbid(right)
    (found,) = findings(cluster).values()
    assert (found.ok, f"may not {right} in" in found.detail) == (False, True), found
    assert "kubernetes.md" in found.hint


def test_what_mlcd_can_do_without_is_told(cluster: Cluster) -> None:
    cluster.forbid("list events")
    found = findings(cluster)
    assert all(one.ok for one in found.values())
    assert "may not list events" in found["events"].detail


def test_a_cluster_that_does_not_answer_is_told(cluster: Cluster) -> None:
    cluster.configure(broken="Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout")
    (found,) = findings(cluster).values()
    assert not found.ok
    assert "i/o timeout" in found.detail


def test_pools_without_nodes_that_may_be_used_are_told(cluster: Cluster) -> None:
    assert not findings(cluster, nodes="!cloud.google.com/gke-nodepool")["pools"].ok
