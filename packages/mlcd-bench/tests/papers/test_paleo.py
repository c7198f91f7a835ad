"""The analytical model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.core.goal import Aim
from mlcd.core.machines import Deployment
from mlcd.core.study import Stop
from mlcd.errors import UserError
from mlcd.search.base import Searcher
from mlcd.search.choose import make_plan
from mlcd.testing.searcher_contract import SearcherContract
from mlcd_bench.papers.model_facts import MODELS, known_model
from mlcd_bench.papers.paleo import MissingFactsError, Paleo
from search_worlds import deployment, offer, study_of


class TestPaleo(SearcherContract):
    keeps_reserve = False
    probes = False

    def searcher(self) -> Searcher:
        return Paleo(model="resnet-50")


V100 = {"gpus": 1, "gpu_model": "V100", "network_gbps": 8.0}
MODEL = Paleo(flops_per_sample=1e9, parameters=25e6, batch_size=256, efficiency=1.0)


def test_one_node_only_computes() -> None:
    assert MODEL.speed(deployment("p3", 1, 256, **V100)) == pytest.approx(15.7e12 / 1e9)


def test_ring_all_reduce_sends_the_gradient_twice() -> None:
    # 4 nodes: 256e9 / (4 × 15.7e12) s of computing and 2 × 3/4 × 100 MB over 1 GB/s
    seconds = 256e9 / (4 * 15.7e12) + 0.15
    assert MODEL.speed(deployment("p3", 4, 256, **V100)) == pytest.approx(256 / seconds)


def test_a_parameter_server_is_shared_by_all_workers() -> None:
    model = replace(MODEL, communication="parameter-server", servers=2)
    seconds = 256e9 / (4 * 15.7e12) + 2 * 4 * 0.1 / 2
    assert model.speed(deployment("p3", 4, 256, **V100)) == pytest.approx(256 / seconds)


def test_the_servers_of_the_deployment_count_before_the_option() -> None:
    few, many = (Deployment(offer("c5", vcpus=4), nodes=8, servers=servers) for servers in (1, 4))
    small = Paleo(model="resnet-50", parameters=1e6)
    assert small.speed(many) < small.speed(few)  # compute counts most here: three workers less
    congested = Paleo(model="resnet-50", parameters=1e9)
    assert congested.speed(many) > congested.speed(few)


def test_unknown_hardware_is_given_plausible_figures() -> None:
    assert MODEL.speed(deployment("odd", 1, gpus=2)) == pytest.approx(2 * 10e12 / 1e9)
    assert MODEL.speed(deployment("cpu", 1)) == pytest.approx(0.04e12 / 1e9)
    assert MODEL.speed(deployment("a100x2", 1, gpus=2)) == pytest.approx(2 * 19.5e12 / 1e9)


def test_facts_of_the_user_come_before_the_tables() -> None:
    model = replace(MODEL, device_teraflops={"V100": 100.0})
    assert model.speed(deployment("p3", 1, **V100)) == pytest.approx(100e12 / 1e9)


def test_nothing_is_tried_and_the_plan_follows_from_the_beliefs() -> None:
    space = tuple(deployment("p3", nodes, 256, usd_per_hour=3.0, **V100) for nodes in range(1, 9))
    study = study_of(space=space, aim=Aim.CHEAPEST, samples=1e9)
    stop = MODEL.suggest(study)
    assert isinstance(stop, Stop)
    assert stop.choice == space[0]
    assert make_plan(study, stop, MODEL.beliefs(study)).forecast.seconds == pytest.approx(1e9 / 15_700)


def test_an_unknown_way_to_communicate_is_refused() -> None:
    with pytest.raises(UserError, match="all-reduce or parameter-server"):
        Paleo(model="resnet-50", communication="pigeons")  # type: ignore[arg-type]


def test_a_known_model_brings_its_facts_and_options_go_before_them() -> None:
    assert Paleo(model="bert-base").facts == MODELS["bert-base"]
    assert Paleo(model="bert-base", parameters=1.0).facts == replace(MODELS["bert-base"], parameters=1.0)


def test_without_facts_it_computes_nothing() -> None:
    with pytest.raises(MissingFactsError, match="does not know"):
        Paleo()
    with pytest.raises(MissingFactsError):
        Paleo(flops_per_sample=1e9, parameters=1e6)  # no batch size


def test_an_unknown_model_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="resnet-51") as raised:
        Paleo(model="resnet-51")
    assert "resnet-50" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("workload", "model"),
    [
        ("bert", "bert-base"),
        ("cifar10", "resnet-18-cifar"),
        ("ncf", "ncf"),
        ("ResNet-50-b128", "resnet-50"),
        ("resnet50", "resnet-50"),
        ("terasort_hadoop_huge", None),
        ("mnist_mlp-lr0.0001-async", None),
    ],
)
def test_a_workloads_name_tells_its_model(workload: str, model: str | None) -> None:
    assert known_model(workload) == model


def test_the_batch_size_in_a_workloads_name_goes_before_the_models() -> None:
    assert Paleo.options_for("ResNet-50-b128") == {"model": "resnet-50", "batch_size": 128}
    assert Paleo.options_for("ncf") == {"model": "ncf"}
    assert Paleo.options_for("pagerank") == {}


def test_a_resnet_of_more_layers_computes_more() -> None:
    sizes = [MODELS[f"resnet-{layers}"].flops_per_sample for layers in (18, 34, 50, 101, 152)]
    assert sizes == sorted(sizes)
