"""CherryPick (Alipourfard et al., NSDI 2017), and the MLCD paper's budget-aware form of it, CP_imprd.

Start points from a quasi-random sequence, so that they lie apart; a Gaussian process; the expected improvement
weighted by the probability that the limits are kept (its constrained EI); the end when the expected improvement
is below 10 % and at least six deployments were tried. The limits are those of the training: what the search
itself spends is not counted. CP_imprd ends where the next probe would take what the training needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.core.study import Stop
from mlcd.search.arrays import Floats
from mlcd.search.candidates import types_over_prices
from mlcd.search.limits import limits_of
from mlcd.search.speed_model import (
    Speeds,
    Trainings,
    expect_speeds,
    expect_trainings,
)
from mlcd.search.table import StudyView
from mlcd_bench.papers.convbo import Complies, Conventional, InitialPoints, Threshold, best_by_training
from mlcd_bench.papers.convbo_model import expected_improvement


@dataclass(frozen=True)
class CherryPick(Conventional):
    """Constrained Bayesian optimisation with quasi-random start points."""

    initial_points: InitialPoints = 3
    threshold: Threshold = 0.10
    fewest_runs: Annotated[int, "never stop before this many deployments were tried"] = 6

    def _next(self, view: StudyView) -> Deployment | Stop:
        speeds = expect_speeds(view)
        if view.runs < self.initial_points or speeds is None:
            return quasi_random_open(view, view.runs)
        return self._largest(view, _constrained_improvement(view, speeds), self.fewest_runs)


@dataclass(frozen=True)
class CPImprd(CherryPick):
    """CherryPick made budget-aware: the paper's CP_imprd."""

    complies: Complies = True


def quasi_random_open(view: StudyView, number: int) -> Deployment:
    """The open deployment at the number-th point of a sequence that fills types × nodes × batch sizes evenly.

    An additive recurrence from a start that the seed fixes: each coordinate steps by a power of 1/φ.
    """
    table = view.table
    start = np.random.default_rng(view.study.seed).random(3)
    by_price, by_nodes, by_batch = (start + (number + 1) * _STEPS) % 1.0
    open_kinds = set(table.kind[view.open].tolist())
    kinds = [kind for kind in types_over_prices(table, len(table.kinds)) if kind in open_kinds]
    mine = view.open & (table.kind == _at(kinds, by_price))
    mine &= table.nodes == _at(np.unique(table.nodes[mine]), by_nodes)
    mine &= table.batch == _at(np.unique(table.batch[mine]), by_batch)
    return table.deployments[int(np.flatnonzero(mine)[0])]


_STEPS = 1.2207440846057596 ** -np.arange(1.0, 4.0)  # φ for three dimensions: the root of x⁴ = x + 1


def _at(values: Sequence[float] | Floats, share: float) -> float:
    return values[int(share * len(values))]


def _constrained_improvement(view: StudyView, speeds: Speeds) -> Floats:
    """EI × P(limits kept), as a share of the best value; P alone while nothing measured keeps the limits."""
    trainings = expect_trainings(view, speeds)
    chance = _chance_of_keeping_limits(view, trainings)
    best = best_by_training(view.study)
    if best is None or not _keeps_limits(view, trainings, best.deployment):
        return chance
    level = float(np.log(trainings.value[view.table.position[best.deployment]]))
    return expected_improvement(level, np.log(trainings.value), trainings.sd) * chance


def _chance_of_keeping_limits(view: StudyView, trainings: Trainings) -> Floats:
    deadline, budget = limits_of(view.study.goal)
    shape = trainings.seconds.shape
    return trainings.chance_within(np.full(shape, deadline), np.full(shape, budget))


def _keeps_limits(view: StudyView, trainings: Trainings, deployment: Deployment) -> bool:
    row = view.table.position[deployment]
    return view.study.goal.allows(float(trainings.seconds[row]), float(trainings.usd[row]))
