"""Job sizes, limits and the oracle, on a world worked out on paper."""

from __future__ import annotations

import pytest

from mlcd.errors import UserError
from mlcd_bench.cases import Case
from mlcd_bench.protocol import Rules, Scenario, set_problem
from small_cases import FAST, SLOW, one, small_case


def test_the_fastest_deployment_trains_for_the_hours_asked() -> None:
    problem = set_problem(small_case(), Scenario.FASTEST, 6.0, 2.0)
    assert problem is not None
    assert problem.oracle == one(FAST, 2)
    assert problem.trainings[one(FAST, 2)].seconds == pytest.approx(6 * 3600)
    assert problem.study(0, Rules()).samples == pytest.approx(6 * 3600 * 1000.0)


def test_the_trace_keeps_its_own_job() -> None:
    problem = set_problem(small_case(), Scenario.FASTEST, "trace", 2.0)
    assert problem is not None
    assert problem.trainings[one(SLOW, 1)].seconds == pytest.approx(50.0)


def test_a_trace_that_does_not_know_its_job_has_no_problem_of_its_own_size() -> None:
    case = Case("t", "w", None, ((one(SLOW), 1.0),))
    assert set_problem(case, Scenario.FASTEST, "trace", 2.0) is None


def test_the_oracle_takes_the_cheapest_that_keeps_the_deadline() -> None:
    problem = set_problem(small_case(), Scenario.DEADLINE, 1.0, 1.1)
    assert problem is not None
    assert problem.limit == pytest.approx(1.1)
    assert problem.oracle == one(FAST, 2)  # one fast node would take 1.25 h


def test_the_oracle_takes_the_fastest_that_keeps_the_budget() -> None:
    problem = set_problem(small_case(), Scenario.BUDGET, 1.0, 1.5)
    assert problem is not None
    assert problem.limit == pytest.approx(15.0)
    assert problem.oracle == one(FAST, 1)
    assert problem.worst == one(SLOW, 1)


def test_batch_sizes_together_keep_their_shares_of_the_work() -> None:
    truth = ((one(SLOW, 1, 32), 10.0), (one(SLOW, 1, 64), 15.0))
    problem = set_problem(Case("t", "w", "all", truth, ((32, 100.0), (64, 300.0))), Scenario.FASTEST, 1.0, 2.0)
    assert problem is not None
    assert problem.oracle == one(SLOW, 1, 32)  # 64 is faster but needs three times the samples
    assert problem.study(0, Rules()).samples_at == pytest.approx({32: 36000.0, 64: 108000.0})


def test_a_slack_below_one_is_refused() -> None:
    with pytest.raises(UserError, match="at least 1"):
        set_problem(small_case(), Scenario.BUDGET, 1.0, 0.9)
