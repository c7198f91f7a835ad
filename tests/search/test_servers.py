"""Parameter servers are one more dimension of the space, which every strategy can live with."""

from __future__ import annotations

import pytest

from mlcd import registry
from mlcd.core.goal import Aim, Goal
from mlcd.core.job import Job, NodeRange, Topology
from mlcd.core.machines import Deployment
from mlcd.core.study import Stop
from mlcd.search.concave import past_the_peak
from mlcd.search.fc2 import CostOpt
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
