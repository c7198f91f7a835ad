"""The recommenders of FC²."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.core.machines import Deployment
from mlcd.core.progress import Usage
from mlcd.core.study import Stop, Study
from mlcd.core.trial import Measurement, Trial
from mlcd.errors import NotFoundError
from mlcd.search.base import Searcher
from mlcd.search.fc2 import CostOpt, ScalaOpt, ScalaOptM, TimeOpt
from mlcd.testing.searcher_contract import SearcherContract
from search_worlds import deployment, measured, offer, study_of


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


SERVER = offer("m4", 0.4, network_gbps=1.0)
OFFERS = (offer("c4", 0.2), SERVER, offer("g3", 1.2))
SPACE = tuple(Deployment(each, nodes) for each in OFFERS for nodes in range(1, 9))


def seen(where: Deployment, mbps: float) -> Trial:
    trial = measured(where, 10.0)
    return replace(trial, outcome=Measurement(10.0, 10.0, 10.0, usage=Usage(network_mbps=mbps)))


def studied(*trials: Trial) -> Study:
    return study_of(*trials, space=SPACE)


def test_cost_opt_takes_as_many_of_the_cheapest_as_the_hourly_budget_pays() -> None:
    # (1.4 − 0.4) / 0.2 = 5 workers
    assert str(CostOpt(usd_per_hour=1.4).suggest(studied())) == "5 × c4"


def test_time_opt_takes_the_most_expensive() -> None:
    # (4.0 − 0.4) / 1.2 = 3 workers
    assert str(TimeOpt(usd_per_hour=4.0).suggest(studied())) == "3 × g3"


def test_a_cap_on_workers_stands_for_a_budget() -> None:
    assert str(TimeOpt(max_workers=6).suggest(studied())) == "6 × g3"


def test_what_was_measured_is_chosen_and_measuring_can_be_left_out() -> None:
    choice = deployment("c4", 8, usd_per_hour=0.2)
    stop = CostOpt().suggest(studied(measured(choice, 1.0)))
    assert isinstance(stop, Stop)
    assert stop.choice == choice
    blind = CostOpt(measure=False).suggest(studied())
    assert isinstance(blind, Stop)
    assert blind.choice == choice


def test_scala_opt_measures_the_smallest_cluster_of_each_type_dearest_first() -> None:
    search, study = ScalaOpt(), studied()
    for expected in ("1 × g3", "1 × m4", "1 × c4"):
        answer = search.suggest(study)
        assert str(answer) == expected
        assert isinstance(answer, Deployment)
        study = study.with_trial(seen(answer, 100.0))


def test_scala_opt_takes_the_type_that_needs_the_fewest_workers() -> None:
    # p · B_ps / b_t: 800/200 = 4 of g3, 800/100 = 8 of m4, 800/50 = 16 of c4
    singles = {"g3": 200.0, "m4": 100.0, "c4": 50.0}
    study = studied(*(seen(d, singles[d.offer.instance.name]) for d in SPACE if d.nodes == 1))
    assert str(ScalaOpt().suggest(study)) == "4 × g3"


def test_the_hourly_budget_bounds_the_workers_too() -> None:
    study = studied(*(seen(d, 100.0) for d in SPACE if d.nodes == 1))
    assert str(ScalaOpt(usd_per_hour=2.9).suggest(study)) == "2 × g3"  # (2.9 − 0.4) / 1.2


def test_scala_opt_m_takes_the_type_that_the_user_names() -> None:
    study = studied(seen(SPACE[0], 200.0))
    assert str(ScalaOptM(instance_type="c4").suggest(study)) == "4 × c4"
    with pytest.raises(NotFoundError, match="Did you mean 'c4'"):
        ScalaOptM(instance_type="c44").suggest(study)


def test_a_bandwidth_that_is_not_metered_is_reckoned_from_the_parameters() -> None:
    # 10 samples/s in batches of 5: 2 steps/s × 2 × 32 bit × 1.5625 M = 200 Mbps
    study = studied(*(seen(d, 0.0) for d in SPACE if d.nodes == 1))
    assert str(ScalaOpt(parameters=1.5625e6, batch_size=5).suggest(study)) == "4 × g3"
