"""Parameter servers are one more dimension of the space, which every strategy can live with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd import registry
from mlcd.core.goal import Aim, Goal
from mlcd.core.job import Job, NodeRange, Resources, SearchSettings, Servers, Topology
from mlcd.core.machines import Deployment
from mlcd.core.serial import from_json, to_json
from mlcd.core.study import Stop
from mlcd.errors import InvalidJobError
from mlcd.search.concave import past_the_peak
from mlcd.search.fc2 import CostOpt
from mlcd.search.options import as_searched
from mlcd.search.prices import prices_of
from mlcd.search.space import make_space
from mlcd.search.table import study_view
from mlcd.search.trials import local_batch
from mlcd.testing.searcher_contract import make_study, play
from search_worlds import measured, offer, study_of

JOB = Job("job", "train", nodes=NodeRange(1, 8), topology=Topology.PS)
SPACE = make_space(JOB, [offer("c5", 1.0, vcpus=4), offer("m5", 2.0, vcpus=8)])


def truth(deployment: Deployment) -> float:
    """Workers speed it up until the servers' network is full: six workers want two servers."""
    power = deployment.offer.instance.vcpus * deployment.workers
    return float(min(power, 20.0 * deployment.servers))


def at(nodes: int, servers: int) -> Deployment:
    return next(d for d in SPACE if (d.offer.instance.name, d.nodes, d.servers) == ("c5", nodes, servers))


FACTS = {"paleo": {"model": "resnet-50"}}  # it computes nothing without


@pytest.mark.parametrize("name", registry.names("searchers"))
def test_every_strategy_searches_a_space_with_servers(name: str) -> None:
    searcher = registry.load("searchers", name)(**FACTS.get(name, {}))
    searched = play(searcher, make_study(Goal(Aim.CHEAPEST), SPACE), truth)
    assert isinstance(searched.stop, Stop)
    assert searched.stop.choice in SPACE


@pytest.mark.parametrize("name", ["auto", "heterbo", "exhaustive"])
def test_the_fastest_share_of_servers_is_found(name: str) -> None:
    study = make_study(Goal(Aim.FASTEST), SPACE)
    best = max(map(truth, SPACE))
    choice = play(registry.load("searchers", name)(), study, truth).stop.choice
    assert choice is not None
    assert truth(choice) >= 0.9 * best


def test_a_declining_line_forbids_no_other_number_of_servers() -> None:
    trials = [measured(at(4, 1), 20.0), measured(at(5, 1), 15.0)]
    forbidden = past_the_peak(study_view(study_of(*trials, space=SPACE)))
    left_out = {(d.nodes, d.servers) for d, no in zip(SPACE, forbidden, strict=True) if no}
    assert left_out == {(6, 1), (7, 1), (8, 1)}


def test_fc2_pays_workers_and_takes_the_fewest_servers() -> None:
    stop = CostOpt(usd_per_hour=5.0, measure=False).suggest(make_study(Goal(Aim.FASTEST), SPACE))
    assert isinstance(stop, Stop)
    assert stop.choice == at(5, 1)


def test_a_server_has_no_share_of_the_batch() -> None:
    shared = Deployment(offer(), 4, 64, servers=2)
    assert local_batch(shared) == 32


MEDIUM = [(1, 0.1, 0.5), (2, 0.2, 1.0), (4, 0.4, 1.0), (8, 0.8, 10.0)]  # vCPUs, $/h, Gbit/s
CPU = [offer(f"c{n}", price, vcpus=n, network_gbps=gbps, mixes="here") for n, price, gbps in MEDIUM]
BIG = [
    offer("huge", 0.3, vcpus=96, network_gbps=100.0, mixes="here"),
    offer("gpu", 2.0, max_nodes=2, vcpus=8, gpus=1, network_gbps=25.0, mixes="here"),
]
OPEN = replace(JOB, nodes=NodeRange(2, 4), servers=Servers())


def names_of_servers(space: tuple[Deployment, ...]) -> set[str]:
    return {each.of_servers.instance.name for each in space if each.servers}


def test_medium_machines_without_a_gpu_may_serve_those_that_are_fast_for_their_price() -> None:
    space = make_space(OPEN, [*CPU, *BIG])
    assert names_of_servers(space) == {"c1", "c2", "c8"}, "c4 has no faster network than c2, which is cheaper"
    assert {each.offer.instance.name for each in space} == {"c1", "c2", "c4", "c8", "huge", "gpu"}
    assert {each.servers for each in space} == {1}


def test_the_user_names_types_and_numbers_of_servers() -> None:
    servers = Servers(("gpu", "C4"), (1, 2))
    space = make_space(replace(OPEN, servers=servers), [*CPU, *BIG])
    assert names_of_servers(space) == {"gpu", "c4"}
    assert {(each.nodes, each.servers) for each in space} == {(2, 1), (3, 1), (3, 2), (4, 1), (4, 2)}


def test_servers_are_paid_at_their_own_price_and_named() -> None:
    (deployment,) = [
        each
        for each in make_space(replace(OPEN, servers=Servers(("c2",), (2,))), [*CPU, *BIG])
        if (each.offer.instance.name, each.nodes) == ("gpu", 4)
    ]
    assert deployment.usd_per_hour == pytest.approx(2 * 2.0 + 2 * 0.2)
    assert (str(deployment), deployment.key) == ("2 × gpu + 2 × c2 serving", "4xgpu/s2-c2")
    assert [deployment.offer_of(rank).name for rank in range(4)] == ["gpu", "gpu", "c2", "c2"]
    assert prices_of([deployment]).usd_per_hour.tolist() == [pytest.approx(deployment.usd_per_hour)]
    assert from_json(Deployment, to_json(deployment)) == deployment


def test_what_serves_is_limited_too() -> None:
    space = make_space(replace(OPEN, servers=Servers(("c8",))), [offer("c1", 0.1, max_nodes=2, mixes="here"), CPU[3]])
    assert max(each.workers for each in space if each.offer.instance.name == "c1") == 2


def test_workers_and_servers_share_a_quota() -> None:
    shared = {"mixes": "here", "pool": "standard", "shared_vcpus": 12.0}
    offers = [offer("c2", 0.2, 6, vcpus=2, **shared), offer("c8", 0.8, 1, vcpus=8, network_gbps=10.0, **shared)]
    space = make_space(replace(OPEN, nodes=NodeRange(2, 8), servers=Servers(("c8",))), offers)
    assert max(each.workers for each in space if each.offer.instance.name == "c2") == 2, "2 × 2 + 8 vCPUs of 12"


def test_the_hourly_cap_counts_servers_and_workers() -> None:
    capped = replace(OPEN, resources=(Resources(max_usd_per_hour=0.5),))
    space = make_space(capped, [*CPU, *BIG])
    assert max(each.usd_per_hour for each in space) <= 0.5
    assert "2 × c1 + 1 × c2 serving" in map(str, space)
    with pytest.raises(InvalidJobError, match=r"parameter servers too, cost at least \$0.2 an hour") as raised:
        make_space(replace(capped, resources=(Resources(max_usd_per_hour=0.15),)), CPU)
    assert "2 × c1 (1 serving)" in raised.value.hint


def test_a_cloud_that_rents_one_type_for_a_task_has_servers_of_the_workers_type() -> None:
    alone = [replace(each, mixes="") for each in CPU]
    assert {each.server_offer for each in make_space(OPEN, alone)} == {None}
    with pytest.raises(InvalidJobError, match="Beside c1 the cloud 'test' rents no other type for a task"):
        make_space(replace(OPEN, servers=Servers(("c2",))), alone)
    same = replace(OPEN, servers=Servers(("c2",)), resources=(Resources(instance_types=("c2",)),))
    assert {str(each) for each in make_space(same, alone)} == {f"{nodes} × c2 (1 serving)" for nodes in (2, 3, 4)}


def test_a_server_is_no_machine_of_another_region() -> None:
    there = [replace(CPU[0], region="far", mixes="far"), CPU[1]]
    servers = {(each.offer.region, each.of_servers.region) for each in make_space(OPEN, there)}
    assert servers == {("far", "far"), ("", "")}


def test_bad_wishes_are_named() -> None:
    with pytest.raises(InvalidJobError, match="No parameter server can be of type c22") as raised:
        make_space(replace(OPEN, servers=Servers(("c22",))), CPU)
    assert "Did you mean" in raised.value.hint
    with pytest.raises(InvalidJobError, match="Of 4 nodes 4 are to serve: none is left to train"):
        make_space(replace(OPEN, servers=Servers((), (4,))), CPU)


def test_more_nodes_than_there_are_machines_are_not_even_looked_at() -> None:
    """A job file may come from anyone who may send one."""
    job = replace(OPEN, nodes=NodeRange(2, 10**12), servers=Servers(("c2",), (1, 10**12)))
    few = [offer("c1", 0.1, 2, mixes="here"), offer("c2", 0.2, 3, mixes="here")]
    assert {str(each) for each in make_space(job, few)} == {
        "1 × c1 + 1 × c2 serving",
        "2 × c1 + 1 × c2 serving",
        "2 × c2 (1 serving)",
        "3 × c2 (1 serving)",
    }


def test_a_job_without_servers_has_them_of_the_workers_type_as_ever() -> None:
    space = make_space(replace(OPEN, servers=None), CPU)
    assert {each.server_offer for each in space} == {None}
    assert {(each.nodes, each.servers) for each in space} == {(2, 1), (3, 1), (4, 1), (4, 2)}


@pytest.mark.parametrize("name", ["cost-opt", "scala-opt-m"])
def test_a_recommender_chooses_servers_that_the_job_leaves_open(name: str) -> None:
    asked = replace(OPEN, servers=None, search=SearchSettings(name))
    assert as_searched(asked).servers == Servers()
    named = replace(asked, search=SearchSettings(name, options={"parameter_server": "c2"}))
    assert as_searched(named).servers == Servers(("c2",))
    said = replace(asked, servers=Servers(("c4",)))
    assert as_searched(said) == said
    for as_it_is in (
        replace(asked, topology=Topology.ALLREDUCE),
        replace(asked, search=SearchSettings("heterbo")),
    ):
        assert as_searched(as_it_is) == as_it_is


def test_what_a_strategy_may_spend_an_hour_holds_for_the_job() -> None:
    """Else the training might move to what the search was not allowed to choose."""
    job = replace(OPEN, search=SearchSettings("time-opt", options={"usd_per_hour": 0.5}))
    assert as_searched(job).resources == (Resources(max_usd_per_hour=0.5),)
    assert max(each.usd_per_hour for each in make_space(as_searched(job), [*CPU, *BIG])) <= 0.5
    both = replace(job, resources=(Resources(max_usd_per_hour=0.2), Resources(min_vcpus=2.0)))
    assert [each.max_usd_per_hour for each in as_searched(both).resources] == [0.2, 0.5]
    assert as_searched(replace(job, search=SearchSettings("time-opt"))).resources == job.resources


@pytest.mark.parametrize("name", registry.names("searchers"))
def test_every_strategy_searches_a_space_with_servers_of_several_types(name: str) -> None:
    space = make_space(OPEN, CPU)
    searcher = registry.load("searchers", name)(**FACTS.get(name, {}))
    searched = play(searcher, make_study(Goal(Aim.CHEAPEST), space), mixed_truth)
    assert isinstance(searched.stop, Stop)
    assert searched.stop.choice in space


@pytest.mark.parametrize("name", ["auto", "heterbo"])
def test_servers_that_are_worth_their_price_are_found(name: str) -> None:
    study = make_study(Goal(Aim.FASTEST), make_space(OPEN, CPU))
    choice = play(registry.load("searchers", name)(), study, mixed_truth).stop.choice
    assert choice is not None
    assert mixed_truth(choice) >= 0.85 * max(map(mixed_truth, study.space))


def mixed_truth(deployment: Deployment) -> float:
    """As fast as the workers compute, or as their server's network can serve."""
    power = deployment.offer.instance.vcpus * deployment.workers
    return float(min(power, 4.0 * deployment.of_servers.instance.network_gbps))
