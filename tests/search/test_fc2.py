"""The recommenders of FC²."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.catalog.ec2_types import listed_types
from mlcd.core.job import Job, NodeRange, Servers, Topology
from mlcd.core.machines import Deployment
from mlcd.core.progress import NodeUsage, Usage
from mlcd.core.study import Stop, Study, WorkerBandwidth
from mlcd.core.trial import Measurement, Trial
from mlcd.errors import InvalidJobError, NotFoundError
from mlcd.search.bandwidth import bandwidths_in
from mlcd.search.base import Searcher
from mlcd.search.fc2 import CostOpt, ScalaOpt, ScalaOptM, TimeOpt
from mlcd.search.options import open_strategy
from mlcd.search.space import make_space
from mlcd.testing.searcher_contract import SearcherContract, play
from search_worlds import measured, offer, study_of


class TestCostOpt(SearcherContract):
    keeps_reserve = False

    def searcher(self) -> Searcher:
        return CostOpt()


class TestTimeOpt(SearcherContract):
    keeps_reserve = False

    def searcher(self) -> Searcher:
        return TimeOpt()


class TestScalaOpt(SearcherContract):
    keeps_reserve = False

    def searcher(self) -> Searcher:
        return ScalaOpt()


class TestScalaOptM(SearcherContract):
    keeps_reserve = False

    def searcher(self) -> Searcher:
        return ScalaOptM()


SERVER = offer("m4", 0.4, network_gbps=1.0, mixes="here")
OFFERS = (offer("c4", 0.2, mixes="here"), SERVER, offer("g3", 1.2, mixes="here"))
JOB = Job("j", "train", topology=Topology.PS, nodes=NodeRange(2, 9), servers=Servers(("m4",)))
SPACE = make_space(JOB, OFFERS)
ALONE = tuple(Deployment(each, nodes) for each in OFFERS for nodes in range(1, 9))  # they exchange with each other
SMALLEST = tuple(each for each in SPACE if each.nodes == 2)


def seen(where: Deployment, mbps: float) -> Trial:
    trial = measured(where, 10.0)
    return replace(trial, outcome=Measurement(10.0, 10.0, 10.0, usage=Usage(network_mbps=mbps)))


def studied(*trials: Trial, space: tuple[Deployment, ...] = SPACE) -> Study:
    return study_of(*trials, space=space)


def test_cost_opt_takes_as_many_of_the_cheapest_as_the_hourly_budget_pays() -> None:
    # (1.4 − 0.4) / 0.2 = 5 workers
    assert str(CostOpt(usd_per_hour=1.4).suggest(studied())) == "5 × c4 + 1 × m4 serving"
    # without a server 1.4 / 0.2 = 7 nodes
    assert str(CostOpt(usd_per_hour=1.4).suggest(studied(space=ALONE))) == "7 × c4"


def test_time_opt_takes_the_most_expensive() -> None:
    # (4.0 − 0.4) / 1.2 = 3 workers
    assert str(TimeOpt(usd_per_hour=4.0).suggest(studied())) == "3 × g3 + 1 × m4 serving"


def test_a_cap_on_workers_stands_for_a_budget() -> None:
    assert str(TimeOpt(max_workers=6).suggest(studied())) == "6 × g3 + 1 × m4 serving"


def test_what_was_measured_is_chosen_and_measuring_can_be_left_out() -> None:
    choice = next(each for each in SPACE if str(each) == "8 × c4 + 1 × m4 serving")
    stop = CostOpt().suggest(studied(measured(choice, 1.0)))
    assert isinstance(stop, Stop)
    assert stop.choice == choice
    blind = CostOpt(measure=False).suggest(studied())
    assert isinstance(blind, Stop)
    assert blind.choice == choice


def test_scala_opt_measures_the_smallest_cluster_of_each_type_dearest_first() -> None:
    search, study = ScalaOpt(), studied()
    for expected in ("1 × g3 + 1 × m4 serving", "2 × m4 (1 serving)", "1 × c4 + 1 × m4 serving"):
        answer = search.suggest(study)
        assert str(answer) == expected
        assert isinstance(answer, Deployment)
        study = study.with_trial(seen(answer, 100.0))


def test_scala_opt_takes_the_type_that_needs_the_fewest_workers() -> None:
    # p · B_ps / b_t: 800/200 = 4 of g3, 800/100 = 8 of m4, 800/50 = 16 of c4
    singles = {"g3": 200.0, "m4": 100.0, "c4": 50.0}
    study = studied(*(seen(d, singles[d.offer.instance.name]) for d in SMALLEST))
    assert str(ScalaOpt().suggest(study)) == "4 × g3 + 1 × m4 serving"


def test_the_hourly_budget_bounds_the_workers_too() -> None:
    study = studied(*(seen(d, 100.0) for d in SMALLEST))
    assert str(ScalaOpt(usd_per_hour=2.9).suggest(study)) == "2 × g3 + 1 × m4 serving"  # (2.9 − 0.4) / 1.2


def test_a_type_of_which_there_are_few_needs_no_fewer_workers_for_that() -> None:
    few = tuple(replace(each, max_nodes=3) if each.name == "c4" else each for each in OFFERS)
    space = make_space(JOB, few)
    study = studied(*(seen(d, 100.0) for d in space if d.nodes == 2), space=space)
    assert str(ScalaOpt(measure=False, usd_per_hour=20.0).suggest(study).choice) == "8 × g3 + 1 × m4 serving"


def test_the_reason_says_what_a_worker_takes_and_whether_the_network_or_the_budget_is_the_limit() -> None:
    study = studied(*(seen(d, 100.0) for d in SMALLEST))
    capped = ScalaOpt(usd_per_hour=2.9, measure=False).suggest(study)
    served = ScalaOpt(measure=False).suggest(study)
    assert isinstance(capped, Stop)
    assert isinstance(served, Stop)
    assert served.reason.endswith("is full: one takes 100 of 1,000 Mbit/s")
    assert capped.reason == f"{served.reason}; it has room for more, but no more are allowed"


def test_scala_opt_m_takes_the_type_that_the_user_names() -> None:
    study = studied(seen(SPACE[0], 200.0))
    assert str(ScalaOptM(instance_type="c4").suggest(study)) == "4 × c4 + 1 × m4 serving"
    with pytest.raises(NotFoundError, match="Did you mean 'c4'"):
        ScalaOptM(instance_type="c44").suggest(study)


def test_a_bandwidth_that_is_not_metered_is_reckoned_from_the_parameters() -> None:
    # 10 samples/s in batches of 5: 2 steps/s × 32 bit × 3.125 M = 200 Mbps
    study = studied(*(seen(d, 0.0) for d in SMALLEST))
    assert str(ScalaOpt(parameters=3.125e6, batch_size=5).suggest(study)) == "4 × g3 + 1 × m4 serving"


def test_the_bandwidth_is_that_of_the_worker_and_not_of_the_server() -> None:
    nodes = (NodeUsage(network_mbps=200.0), NodeUsage(network_mbps=1000.0))
    known = [replace(seen(d, 0.0), outcome=Measurement(1.0, 1.0, 1.0, usage=Usage.of(nodes))) for d in SMALLEST]
    assert str(ScalaOpt().suggest(studied(*known))) == "4 × g3 + 1 × m4 serving"  # 800/200


def test_what_the_server_receives_does_not_stand_for_a_worker_that_nobody_has_seen() -> None:
    nodes = (NodeUsage(), NodeUsage(network_mbps=1000.0))
    known = [replace(seen(d, 0.0), outcome=Measurement(10.0, 10.0, 10.0, usage=Usage.of(nodes))) for d in SMALLEST]
    # computed, as above: 200 Mbps
    assert str(ScalaOpt(parameters=3.125e6, batch_size=5).suggest(studied(*known))) == "4 × g3 + 1 × m4 serving"


def test_what_a_node_alone_receives_is_no_exchange() -> None:
    alone = [seen(each, 400.0) for each in ALONE if each.nodes == 1]
    # 10 samples/s in batches of 5: 200 Mbps, and not the 400 that it received
    search = ScalaOpt(parameters=3.125e6, batch_size=5)
    assert str(search.suggest(studied(*alone, space=ALONE))) == "4 × g3"


def test_a_bandwidth_that_an_earlier_job_measured_is_not_measured_again() -> None:
    earlier = tuple(WorkerBandwidth(name, None, 1.0, mbps, "job-1") for name, mbps in (("g3", 200.0), ("m4", 100.0)))
    study = replace(studied(), bandwidths=earlier)
    assert str(ScalaOpt().suggest(study)) == "1 × c4 + 1 × m4 serving", "the only type that nobody has measured"
    stop = ScalaOptM(instance_type="g3", measure=False).suggest(study)
    assert isinstance(stop, Stop)
    assert str(stop.choice) == "4 × g3 + 1 × m4 serving"
    assert "one takes 200 (measured by job job-1) of 1,000 Mbit/s" in stop.reason
    assert measured_again(ScalaOptM(instance_type="g3"), study) == ["4 × g3 + 1 × m4 serving"]


def measured_again(search: ScalaOpt, study: Study) -> list[str]:
    """What is tried where a larger cluster shows another bandwidth than one worker."""
    tried = []
    while isinstance(step := search.suggest(study), Deployment):
        tried.append(str(step))
        study = study.with_trial(seen(step, 50.0))
    return tried


@pytest.mark.parametrize(
    "known",
    [
        WorkerBandwidth("g3", 64, 1.0, 200.0, "another batch size"),
        WorkerBandwidth("g3", None, 0.1, 200.0, "a server that may have been the bottleneck"),
        WorkerBandwidth("p3", None, 1.0, 200.0, "another type"),
    ],
)
def test_a_bandwidth_that_was_measured_otherwise_does_not_count(known: WorkerBandwidth) -> None:
    study = replace(studied(), bandwidths=(known,))
    assert str(ScalaOptM(instance_type="g3").suggest(study)) == "1 × g3 + 1 × m4 serving"


def test_what_a_job_leaves_is_the_bandwidth_of_one_worker_beside_servers() -> None:
    trials = [seen(d, 100.0) for d in SPACE if d.nodes <= 3] + [seen(d, 100.0) for d in ALONE if d.nodes <= 2]
    assert bandwidths_in(trials, "job-1") == tuple(
        WorkerBandwidth(name, None, 1.0, 100.0, "job-1") for name in ("c4", "m4", "g3")
    )


def test_a_parameter_server_that_the_user_names_has_to_be_there() -> None:
    with pytest.raises(NotFoundError, match="No parameter server can be called 'm44'") as raised:
        CostOpt(parameter_server="m44").suggest(studied())
    assert "Did you mean 'm4'" in raised.value.hint
    with pytest.raises(NotFoundError) as raised:
        CostOpt(parameter_server="m4").suggest(studied(space=ALONE))
    assert raised.value.hint == "Ask for `topology: ps`."


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("cost-opt", {"usd_per_hour": -1}, "usd_per_hour has to be more than 0"),
        ("time-opt", {"usd_per_hour": 0}, "usd_per_hour has to be more than 0"),
        ("cost-opt", {"max_workers": 0}, "max_workers has to be 1 or more"),
        ("scala-opt", {"saturation": 80}, "saturation is a share"),
        ("scala-opt", {"usd_per_hour": -1}, "usd_per_hour has to be more than 0"),
        ("scala-opt-m", {"most_types": 0}, "most_types have to be more than 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, options: dict[str, float], why: str) -> None:
    with pytest.raises(InvalidJobError, match=why):
        open_strategy(name, options)


SHIPPED = tuple(replace(each, mixes=each.region) for each in listed_types())  # as EC2 offers them
RECOMMENDERS = [CostOpt, TimeOpt, ScalaOpt, ScalaOptM]


@pytest.mark.parametrize("recommender", RECOMMENDERS)
@pytest.mark.parametrize("dollars", [0.5, 2.0, 10.0])
def test_nothing_on_the_shipped_list_costs_more_an_hour_than_the_budget(
    recommender: type[CostOpt], dollars: float
) -> None:
    """At $2 an hour the parameter server was a p5.48xlarge at $55: the fastest network of all."""
    job = replace(JOB, nodes=NodeRange(2, 16), servers=Servers())
    study = studied(space=make_space(job, SHIPPED))
    searched = play(recommender(usd_per_hour=dollars), study, lambda where: 10.0 * where.workers)
    choice = searched.stop.choice
    assert choice is not None
    assert all(trial.deployment.usd_per_hour <= dollars for trial in searched.study.trials)
    assert choice.usd_per_hour <= dollars
    assert choice.workers >= 1
    assert not choice.of_servers.instance.gpus


@pytest.mark.parametrize("recommender", RECOMMENDERS)
def test_a_budget_that_pays_no_server_and_worker_is_said_and_not_passed(recommender: type[CostOpt]) -> None:
    stop = recommender(usd_per_hour=0.5).suggest(studied())
    assert isinstance(stop, Stop)
    assert stop.choice is None
    assert "no cluster costs $0.5000 an hour or less, parameter servers included" in stop.reason


def test_of_the_shipped_list_the_fastest_medium_server_is_taken() -> None:
    job = replace(JOB, nodes=NodeRange(2, 16), servers=Servers())
    stop = CostOpt(usd_per_hour=2.0, measure=False).suggest(studied(space=make_space(job, SHIPPED)))
    assert isinstance(stop, Stop)
    assert str(stop.choice) == "15 × t3.small + 1 × c5n.2xlarge serving"  # 0.432 + 15 × 0.0208 of the $2
