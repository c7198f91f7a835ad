"""Pools, prices and manifests of Kubernetes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clouds.kubernetes.conftest import node
from mlcd.clouds.kubernetes.manifests import HOME_SECONDS, PodRequest, indexed_job, name_of
from mlcd.clouds.kubernetes.pools import Pool, make_offers, quantity, read_pools, read_prices
from mlcd.clouds.kubernetes.settings import KubernetesSettings
from mlcd.clouds.kubernetes.tolerations import Toleration, read_tolerations
from mlcd.errors import UserError

POOL = Pool(("cloud.google.com/gke-nodepool", "gpus"), 7.91, 26.0, 1, "Tesla-T4", 3)


def wanted(task_id: str = "digits-3f2a1c-p1", nodes: int = 2) -> PodRequest:
    tolerations = read_tolerations("dedicated=training:NoSchedule, spot")
    return PodRequest(
        task_id,
        "digits-3f2a1c",
        "2 × gpus",
        nodes,
        POOL,
        image="python:3.11",
        folder="/mlcd",
        lease_seconds=600.0,
        grace_seconds=15.0,
        tolerations=tolerations,
    )


@pytest.mark.parametrize(
    ("text", "number"), [("4", 4.0), ("3920m", 3.92), ("16Gi", 2**34), ("500Ki", 512000), ("1G", 1e9)]
)
def test_quantities_are_read(text: str, number: float) -> None:
    assert quantity(text) == pytest.approx(number)


def test_nodes_of_a_pool_are_one_offer_of_what_each_can_give() -> None:
    nodes = [
        node("a", cpu="3920m"),
        node("b", cpu="3910m"),
        node("c", pool="gpu", allocatable={"nvidia.com/gpu": "2"}, labels={"nvidia.com/gpu.product": "T4"}),
        node(
            "master",
            spec={"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]},
        ),
        node("cordoned", spec={"unschedulable": True}),
        node("down", ready="Unknown"),
    ]
    prices = KubernetesSettings(usd_per_cpu_hour=0.1, usd_per_gpu_hour=2.0)
    gpu, small = make_offers(read_pools(nodes), {"small": 0.25}, prices, "2026-11-16")
    assert (small.instance.name, small.instance.vcpus, small.max_nodes) == ("small", 3.91, 2)
    assert (small.usd_per_hour, small.source) == (0.25, "price list")
    assert (gpu.instance.gpus, gpu.instance.gpu_model) == (2, "T4")
    assert (gpu.usd_per_hour, gpu.source) == (pytest.approx(4.2), "settings")


def test_the_users_own_label_names_the_pools() -> None:
    (pool,) = read_pools([node("a", labels={"team/pool": "ours"})], "team/pool")
    assert pool.label == ("team/pool", "ours")


def test_a_price_list_is_a_csv(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("pool,usd_per_hour\nsmall,0.2\n")
    assert read_prices(str(tmp_path / "prices.csv")) == {"small": 0.2}
    assert read_prices("") == {}
    with pytest.raises(UserError, match="cannot be read"):
        read_prices(str(tmp_path / "gone.csv"))


def test_names_are_accepted_and_differ() -> None:
    names = [name_of(task) for task in ("a/b", "a b", "Ä" * 200, "", "digits-3f2a1c-p1")]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 45 and name.replace("-", "").isalnum() and name == name.lower() for name in names)


def test_a_job_has_a_pod_on_each_node_that_is_not_started_again() -> None:
    spec = indexed_job(wanted(nodes=3))["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert spec["backoffLimit"] == 0
    pod = spec["template"]["spec"]
    assert pod["nodeSelector"] == {"cloud.google.com/gke-nodepool": "gpus"}
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "7410m", "memory": "22630Mi", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }
    assert "subdomain" not in pod  # there is no Service


def test_a_pod_has_the_programs_grace_to_save_and_some_time_to_bring_it_home() -> None:
    pod = indexed_job(wanted())["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 15 + HOME_SECONDS


def test_tolerations_are_written_as_kubernetes_wants_them() -> None:
    assert indexed_job(wanted())["spec"]["template"]["spec"]["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "amd.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "dedicated", "operator": "Equal", "value": "training", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ]
    with pytest.raises(UserError, match="'spot:Never' is no toleration"):
        read_tolerations("spot:Never")


@pytest.mark.parametrize(
    ("taint", "tolerated"),
    [
        ({"key": "dedicated", "value": "training", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "value": "training", "effect": "NoExecute"}, False),
        ({"key": "dedicated", "value": "web", "effect": "NoSchedule"}, False),
        ({"key": "spot", "value": "true", "effect": "NoExecute"}, True),
        ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, True),
        ({"key": "other", "effect": "NoSchedule"}, False),
        ({"key": "other", "effect": "PreferNoSchedule"}, True),
    ],
)
def test_nodes_with_taints_are_for_sale_where_they_are_tolerated(taint: dict[str, str], tolerated: bool) -> None:
    tolerations = read_tolerations("dedicated=training:NoSchedule, spot")
    pools = read_pools([node("a", spec={"taints": [taint]})], tolerations=tolerations)
    assert len(pools) == int(tolerated)
    assert not Toleration("other").tolerates({"key": "another", "effect": "NoSchedule"})


def test_the_manifest_keeps_the_schema_of_kubernetes() -> None:
    schema: Any = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    manifest = indexed_job(wanted())
    schema.validate(manifest, schema.latest_version(), strict=True)
    broken = json.loads(json.dumps(manifest))
    broken["spec"]["paralellism"] = 2
    with pytest.raises(schema.ValidationError):
        schema.validate(broken, schema.latest_version(), strict=True)
