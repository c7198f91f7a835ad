"""Which deployments a job may use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.core.job import BatchSizes, Job, NodeRange, Resources, SearchSettings, Topology
from mlcd.core.machines import Offer
from mlcd.errors import InvalidJobError
from mlcd.search.space import make_space
from search_worlds import offer

OFFERS = (
    offer("c5", 1.0, max_nodes=4, vcpus=4, memory_gib=8, region="east"),
    offer("m5", 2.0, max_nodes=8, vcpus=8, memory_gib=32, region="west"),
    offer("p3", 3.0, max_nodes=2, vcpus=8, memory_gib=61, gpus=1, gpu_model="V100", region="east"),
    offer("p3", 0.9, max_nodes=2, vcpus=8, memory_gib=61, gpus=1, gpu_model="V100", region="east", spot=True),
)


def names(job: Job, offers: tuple[Offer, ...] = OFFERS) -> list[str]:
    return [deployment.key for deployment in make_space(job, offers)]


def asking(**demands: object) -> Job:
    return Job("job", "train", resources=(Resources(**demands),))  # type: ignore[arg-type]


def test_without_demands_every_on_demand_offer_is_allowed() -> None:
    assert names(Job("job", "train")) == ["1xc5@east", "1xm5@west", "1xp3@east"]


def test_nodes_are_clipped_to_what_is_offered() -> None:
    space = make_space(Job("job", "train", nodes=NodeRange(2, 6)), OFFERS)
    assert [(d.offer.instance.name, d.nodes) for d in space] == [
        ("c5", 2), ("c5", 3), ("c5", 4), ("m5", 2), ("m5", 3), ("m5", 4), ("m5", 5), ("m5", 6), ("p3", 2)
    ]  # fmt: skip


def test_every_batch_size_is_a_deployment_of_its_own_unless_a_node_would_be_idle() -> None:
    job = Job("job", "train", nodes=NodeRange(1, 2), batch_sizes=BatchSizes((1, 64)))
    assert [d.key for d in make_space(job, OFFERS[:1])] == ["1xc5@east/b1", "1xc5@east/b64", "2xc5@east/b64"]


def test_parameter_servers_are_nodes_and_never_more_than_workers() -> None:
    job = Job("job", "train", nodes=NodeRange(1, 4), topology=Topology.PS)
    space = make_space(job, OFFERS[:1])
    assert [d.key for d in space] == ["2xc5@east/s1", "3xc5@east/s1", "4xc5@east/s1", "4xc5@east/s2"]
    assert [d.workers for d in space] == [1, 2, 3, 2]
    assert [d.usd_per_hour for d in space] == [2.0, 3.0, 4.0, 4.0]


def test_a_batch_is_shared_by_those_that_train() -> None:
    job = Job("job", "train", nodes=NodeRange(4, 4), batch_sizes=BatchSizes((2,)), topology=Topology.PS)
    assert [d.key for d in make_space(job, OFFERS[:1])] == ["4xc5@east/b2/s2"]


def test_one_node_cannot_have_a_parameter_server() -> None:
    with pytest.raises(InvalidJobError, match="at least two nodes") as caught:
        make_space(Job("job", "train", topology=Topology.PS), OFFERS)
    assert caught.value.key == "num_nodes"


@pytest.mark.parametrize(
    ("demands", "kept"),
    [
        ({"instance_types": ("M5",)}, ["1xm5@west"]),
        ({"regions": ("east",)}, ["1xc5@east", "1xp3@east"]),
        ({"clouds": ("test",)}, ["1xc5@east", "1xm5@west", "1xp3@east"]),
        ({"accelerators": (("v100", 1.0),)}, ["1xp3@east"]),
        ({"min_vcpus": 8.0}, ["1xm5@west", "1xp3@east"]),
        ({"min_vcpus": 4.0, "exact_vcpus": True}, ["1xc5@east"]),
        ({"min_memory_gib": 30.0}, ["1xm5@west", "1xp3@east"]),
        ({"min_memory_gib": 8.0, "exact_memory": True}, ["1xc5@east"]),
        ({"use_spot": True}, ["1xp3-spot@east"]),
        ({"use_spot": False}, ["1xc5@east", "1xm5@west", "1xp3@east"]),
    ],
)
def test_resources_keep_what_they_ask_for(demands: dict[str, object], kept: list[str]) -> None:
    assert names(asking(**demands)) == kept


def test_any_of_several_resources_will_do() -> None:
    job = replace(asking(), resources=(Resources(instance_types=("p3",)), Resources(min_memory_gib=30.0)))
    assert names(job) == ["1xm5@west", "1xp3@east"]


def test_each_alternative_has_its_own_hourly_cap() -> None:
    small, large = Resources(instance_types=("c5",), max_usd_per_hour=2.0), Resources(instance_types=("m5",))
    job = replace(asking(), nodes=NodeRange(1, 4), resources=(small, replace(large, max_usd_per_hour=4.0)))
    assert names(job) == ["1xc5@east", "2xc5@east", "1xm5@west", "2xm5@west"]
    either = replace(job, resources=(small, Resources(min_vcpus=4.0, max_usd_per_hour=3.0)))
    assert names(either) == ["1xc5@east", "2xc5@east", "3xc5@east", "1xm5@west", "1xp3@east"]


def test_kinds_are_kept_apart() -> None:
    function = offer("lambda", 0.1, kind="function")
    job = replace(asking(), search=SearchSettings(kinds=("function",)))
    assert names(job, (*OFFERS, function)) == ["1xlambda"]


def test_the_same_machine_offered_twice_is_one_deployment_at_the_lower_price() -> None:
    space = make_space(Job("job", "train"), (offer("c5", 2.0), offer("c5", 1.5), offer("c5", 1.7)))
    assert [d.usd_per_hour for d in space] == [1.5]


@pytest.mark.parametrize(
    ("demands", "message", "hint"),
    [
        ({"instance_types": ("p33",)}, "instance_type p33", "Did you mean 'p3'?"),
        ({"accelerators": (("A100", 8.0),)}, "accelerators A100:8", "V100:1"),
        ({"min_vcpus": 96.0}, "cpus 96+", "there is: 4, 8"),
        ({"regions": ("mars",)}, "region mars", "east, west"),
        ({"regions": ("west",), "use_spot": True}, "use_spot true", "on demand"),
    ],
)
def test_an_empty_space_names_the_demand_that_emptied_it(demands: dict[str, object], message: str, hint: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        make_space(asking(**demands), OFFERS)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_too_many_nodes_are_refused_with_what_is_offered() -> None:
    with pytest.raises(InvalidJobError, match="at least 20 nodes; at most 8"):
        make_space(Job("job", "train", nodes=NodeRange(20, 30)), OFFERS)


def test_a_batch_smaller_than_the_fewest_nodes_is_refused() -> None:
    with pytest.raises(InvalidJobError, match="less than a sample each"):
        make_space(Job("job", "train", nodes=NodeRange(4, 8), batch_sizes=BatchSizes((2,))), OFFERS)


def test_a_cloud_without_offers_is_refused() -> None:
    with pytest.raises(InvalidJobError, match="offers no machines"):
        make_space(Job("job", "train"), ())


def test_no_deployment_costs_more_an_hour_than_the_job_allows() -> None:
    job = replace(asking(max_usd_per_hour=4.0), nodes=NodeRange(1, 8))
    assert names(job) == [
        "1xc5@east",
        "2xc5@east",
        "3xc5@east",
        "4xc5@east",
        "1xm5@west",
        "2xm5@west",
        "1xp3@east",
    ]


def test_an_hourly_price_that_nothing_meets_says_what_there_is() -> None:
    with pytest.raises(InvalidJobError, match=r"max_hourly_cost 0\.5") as caught:
        names(asking(max_usd_per_hour=0.5))
    assert "1 × c5 at $1" in str(caught.value.hint)
