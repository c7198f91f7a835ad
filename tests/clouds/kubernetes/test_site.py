"""What a site's own pods need: who they are, where they may run, what they mount, what their GPUs are called."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from clouds.kubernetes.conftest import node
from clouds.kubernetes.test_parts import wanted
from mlcd.clouds.kubernetes.manifests import indexed_job
from mlcd.clouds.kubernetes.pools import read_pools
from mlcd.clouds.kubernetes.settings import KubernetesSettings
from mlcd.clouds.kubernetes.site import ANY, Site, read_site
from mlcd.errors import UserError


def site(**settings: Any) -> Site:
    """By the settings."""
    return read_site(asdict(KubernetesSettings(**settings)))


def job(**settings: Any) -> dict[str, Any]:
    """What is asked for with these settings."""
    return indexed_job(replace(wanted(), site=site(**settings)))


def pod(**settings: Any) -> dict[str, Any]:
    """One of its pods."""
    made: dict[str, Any] = job(**settings)["spec"]["template"]["spec"]
    return made


EVERYTHING = {
    "nodes": "zone=a|b, disk, !reserved",
    "service_account": "trainer",
    "pull_secrets": "registry, mirror",
    "priority_class": "low",
    "run_as": "1000:2000",
    "claims": "datasets=/data, cache=/root/.cache",
    "disk_gib": 20.0,
    "shm_gib": 1.5,
    "forget_seconds": 60,
}


def test_pods_ask_for_nothing_that_no_setting_names() -> None:
    plain = pod()
    assert {"serviceAccountName", "imagePullSecrets", "priorityClassName", "securityContext"}.isdisjoint(plain)
    assert "securityContext" not in plain["containers"][0]
    assert "nodeAffinity" not in plain["affinity"]
    assert [volume["emptyDir"] for volume in plain["volumes"]] == [{}, {"medium": "Memory"}]
    assert job()["spec"]["ttlSecondsAfterFinished"] == 3600


def test_pods_are_whom_the_settings_name() -> None:
    made = pod(**EVERYTHING)
    assert (made["serviceAccountName"], made["priorityClassName"]) == ("trainer", "low")
    assert made["imagePullSecrets"] == [{"name": "registry"}, {"name": "mirror"}]
    assert job(**EVERYTHING)["spec"]["ttlSecondsAfterFinished"] == 60


def test_pods_with_a_user_of_their_own_keep_the_standard_restricted() -> None:
    made = pod(run_as="1000:2000")
    assert made["securityContext"] == {
        "runAsUser": 1000,
        "runAsGroup": 2000,
        "fsGroup": 2000,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    held = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert made["containers"][0]["securityContext"] == held
    assert pod(run_as="0")["securityContext"]["runAsNonRoot"] is False
    assert pod(run_as="7")["securityContext"]["fsGroup"] == 7


def test_claims_are_mounted_and_disks_have_their_limits() -> None:
    made = pod(**EVERYTHING)
    volumes = {volume["name"]: volume for volume in made["volumes"]}
    assert volumes["mlcd"]["emptyDir"] == {"sizeLimit": "20480Mi"}
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1536Mi"}
    places = {mount["mountPath"]: volumes[mount["name"]] for mount in made["containers"][0]["volumeMounts"]}
    assert places["/data"]["persistentVolumeClaim"] == {"claimName": "datasets"}
    assert places["/root/.cache"]["persistentVolumeClaim"] == {"claimName": "cache"}


def test_nodes_that_pods_may_not_run_on_are_neither_asked_for_nor_sold() -> None:
    rules = site(nodes="zone=a|b, disk, !reserved")
    (term,) = rules.affinity()["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "zone", "operator": "In", "values": ["a", "b"]},
        {"key": "disk", "operator": "Exists"},
        {"key": "reserved", "operator": "DoesNotExist"},
    ]
    nodes = [
        node("good", labels={"zone": "b", "disk": "ssd"}),
        node("elsewhere", labels={"zone": "c", "disk": "ssd"}),
        node("bare", labels={"zone": "a"}),
        node("kept", labels={"zone": "a", "disk": "ssd", "reserved": ""}),
    ]
    assert [pool.nodes for pool in read_pools(nodes, site=rules)] == [1]
    assert [pool.nodes for pool in read_pools(nodes)] == [4]


@pytest.mark.parametrize(
    "settings",
    [{"nodes": "zone=a=b"}, {"nodes": "!zone=a"}, {"claims": "datasets"}, {"claims": "x=data"}, {"run_as": "me"}],
)
def test_settings_that_cannot_be_read_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"^kubernetes\.\w+: '.*' is no \w+"):
        site(**settings)


def test_a_task_of_an_older_mlcd_asks_for_nothing() -> None:
    assert read_site({"image": "python:3.11"}) == ANY


def test_everything_keeps_the_schema_of_kubernetes() -> None:
    schema: Any = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    schema.validate(job(**EVERYTHING), schema.latest_version(), strict=True)


@pytest.mark.parametrize(
    ("given", "product", "asked"),
    [
        ({"nvidia.com/gpu": "4"}, "A100", {"nvidia.com/gpu": "4"}),
        ({"amd.com/gpu": "8"}, "", {"amd.com/gpu": "8"}),
        ({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "7"}, "A100", {"nvidia.com/mig-1g.5gb": "1"}),
        ({"nvidia.com/gpu": "7"}, "A100-SXM4-40GB-MIG-1g.5gb", {"nvidia.com/gpu": "1"}),
        ({}, "", {}),
    ],
)
def test_gpus_are_asked_for_as_their_device_plugin_calls_them(
    given: dict[str, str], product: str, asked: dict[str, str]
) -> None:
    (pool,) = read_pools([node("a", allocatable=given, labels={"nvidia.com/gpu.product": product})])
    assert {name: count for name, count in pool.requests.items() if name not in ("cpu", "memory")} == asked


def test_a_pool_of_different_gpus_is_sold_without_them() -> None:
    (pool,) = read_pools([node("a", allocatable={"nvidia.com/gpu": "4"}), node("b", allocatable={"amd.com/gpu": "4"})])
    assert (pool.gpus, pool.nodes) == (0, 2)
