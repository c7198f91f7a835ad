"""Why the search stopped, as text."""

from __future__ import annotations

from dataclasses import replace

from mlcd.core.goal import Aim, Goal
from mlcd.search.auto.reasons import nothing_to_try
from search_worlds import deployment, measured, study_of


def test_only_the_limit_that_another_probe_could_break_is_named() -> None:
    tiny, huge = deployment("tiny", usd_per_hour=0.1), deployment("huge", usd_per_hour=30.0)
    study = study_of(measured(tiny, 10.0), space=(tiny, huge))
    goal = Goal(Aim.FASTEST, deadline_seconds=1e9, budget_usd=study.spent.usd + 0.001)
    assert nothing_to_try(replace(study, goal=goal)) == "after 1 probe another one could break the budget"
