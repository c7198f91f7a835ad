"""What is expected of each deployment: by the job's models where it was seen enough of, else by the strategy.

Plan, curves, report and the decisions while training all take it from here.
"""

from __future__ import annotations

from mlcd.core.study import Belief, Study
from mlcd.search.base import Searcher
from mlcd.search.space_models import model_beliefs
from mlcd.search.trials import exclusions


def expected_speeds(searcher: Searcher, study: Study) -> tuple[Belief, ...]:
    """One belief for each deployment that anything is expected of, in the order of the space.

    Of what failures have shown to fail there is none: no plan, curve or move is to take it for a speed.
    """
    rules = exclusions(study)
    own = {belief.deployment: belief for belief in searcher.beliefs(study)}
    shared = {belief.deployment: belief for belief in model_beliefs(study)}
    told = {d: belief for d, belief in own.items() if belief.modelled or d not in shared}
    expected = {**shared, **told}
    return tuple(expected[each] for each in study.space if each in expected and not rules.excludes(each))
