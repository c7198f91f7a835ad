"""A training that moves when the policies say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.core.study import Ledger
from mlcd_bench.elastic import train_elastically
from mlcd_bench.episode import after_probe
from mlcd_bench.protocol import Rules, Scenario, set_problem
from small_cases import FAST, SLOW, one, small_case

RULES = Rules(noise=0.0, carry=True, start_share=0.3)


def test_a_training_that_nothing_beats_stays_where_it_is() -> None:
    problem = set_problem(small_case(), Scenario.FASTEST, 24.0, 2.0)
    assert problem is not None
    study = problem.study(0, RULES)
    total, here = train_elastically(problem, study, Ledger(), one(FAST, 2), RULES)
    assert total.seconds == pytest.approx(24 * 3600.0)
    assert here == one(FAST, 2)


def test_a_deadline_is_kept_by_fast_machines_first_and_cheap_ones_as_soon_as_they_suffice() -> None:
    problem = set_problem(small_case(), Scenario.DEADLINE, 24.0, 2.0)
    assert problem is not None
    study = problem.study(0, RULES)
    for deployment in (one(FAST, 1), one(SLOW, 4)):
        study = after_probe(problem, study, deployment, RULES)
    alone = study.work(one(FAST, 2)) / 1000.0
    total, _ = train_elastically(problem, study, study.spent, one(FAST, 2), RULES)
    assert problem.goal.allows(total.seconds, total.usd)
    assert total.usd < study.spent.usd + one(FAST, 2).usd(alone)


def test_a_move_pays_for_its_start() -> None:
    problem = set_problem(small_case(), Scenario.FASTEST, 24.0, 2.0)
    assert problem is not None
    study = after_probe(problem, problem.study(0, RULES), one(FAST, 2), RULES)
    free = replace(RULES, start_share=0.0)
    dear, _ = train_elastically(problem, study, study.spent, one(SLOW, 1), RULES)
    cheap, _ = train_elastically(problem, study, study.spent, one(SLOW, 1), free)
    assert dear.seconds > cheap.seconds
