"""What a Ray cluster offers, from what Ray lists."""

from __future__ import annotations

from typing import Any

from mlcd.clouds.ray.kinds import bundle_of, make_offers
from mlcd.clouds.ray.settings import RaySettings
from mlcd.core.machines import InstanceType

GIB = 2**30
PRICES = RaySettings(usd_per_cpu_hour=0.1, usd_per_gpu_hour=2.0)


def row(cpus: float = 4, labels: dict[str, str] | None = None, alive: bool = True, **more: float) -> Any:
    resources = {
        "CPU": cpus,
        "memory": 8.0 * GIB,
        "object_store_memory": 1.0 * GIB,
        "node:10.0.0.1": 1.0,
        **more,
    }
    return {"Alive": alive, "Resources": resources, "Labels": {"ray.io/node-id": "a1", **(labels or {})}}


def shown(rows: list[Any]) -> list[tuple[str, float, int]]:
    return [
        (offer.instance.name, round(offer.usd_per_hour, 3), offer.max_nodes)
        for offer in make_offers(rows, PRICES, "2026-11-16")
    ]


def test_nodes_without_gpus_are_sold_in_cores_up_to_the_whole() -> None:
    offers = make_offers([row(6), row(2)], PRICES, "2026-11-16")
    assert shown([row(6), row(2)]) == [
        ("ray-1c", 0.1, 2),
        ("ray-2c", 0.2, 2),
        ("ray-4c", 0.4, 1),
        ("ray-6c", 0.6, 1),
    ]
    assert offers[1].instance.memory_gib == 8 / 3  # a third of the larger node, which is less


def test_gpu_nodes_are_sold_whole() -> None:
    gpus = row(16, GPU=4.0, **{"accelerator_type:A100": 1.0})
    (offer,) = make_offers([gpus, gpus, row(16, alive=False)], PRICES, "2026-11-16")
    assert (offer.instance.name, offer.usd_per_hour, offer.max_nodes) == ("ray-4xA100", 9.6, 2)
    assert (offer.instance.gpus, offer.instance.gpu_model, offer.instance.vcpus) == (4, "A100", 16)


def test_a_label_names_a_kind_of_node_and_so_does_a_custom_resource() -> None:
    rows = [row(1), row(1, {"ray.io/node-group": "small-pool"}), row(1, scratch=2.0)]
    assert [name for name, _, _ in shown(rows)] == ["ray-1c", "ray-scratch-1c", "small-pool-1c"]


def test_what_is_dead_or_has_no_cpu_is_not_sold() -> None:
    assert shown([row(4, alive=False), row(0)]) == []


def test_a_bundle_asks_for_the_kind_of_node() -> None:
    rows = [row(4), row(4, {"ray.io/node-group": "pool"}), row(4, scratch=2.0)]
    plain = bundle_of(rows, InstanceType("ray-2c", vcpus=2))
    assert (plain.resources, plain.labels) == ({"CPU": 2.0}, {})
    assert bundle_of(rows, InstanceType("pool-2c", vcpus=2)).labels == {"ray.io/node-group": "pool"}
    assert bundle_of(rows, InstanceType("ray-scratch-2c", vcpus=2)).resources == {
        "CPU": 2.0,
        "scratch": 0.001,
    }
    assert bundle_of(rows, InstanceType("ray-4xA100", vcpus=8, gpus=4)).resources["GPU"] == 4.0
