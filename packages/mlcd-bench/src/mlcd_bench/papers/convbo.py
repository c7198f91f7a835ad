"""Conventional Bayesian optimisation: ConvBO of the MLCD paper (section II.D), and its budget-aware form BO_imprd.

Random initial points, a Gaussian process, the largest expected improvement next, the end when that falls below a
threshold. Every probe counts as free: neither its price is seen nor that it uses up the deadline or the
budget. The final choice is the best by the goal among those whose training alone keeps the limits.

BO_imprd (section V.D) searches in the same way, but "would stop the profiling process in time to comply with the
budget constraint": it ends where the next probe would take what the best known deployment needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.core.study import Belief, Ledger, Stop, Study
from mlcd.core.trial import Trial
from mlcd.search.arrays import Floats
from mlcd.search.limits import best_feasible, goal_value, nearest, room_for_probes
from mlcd.search.speed_model import expect_speeds, expect_trainings, speed_beliefs
from mlcd.search.table import StudyView, study_view
from mlcd.search.trials import measured_trials
from mlcd_bench.papers.convbo_model import expect_targets, expected_improvement, target

Complies = Annotated[bool, "stop in time to keep the limits"]
InitialPoints = Annotated[int, "deployments that are tried before the model is used"]
Threshold = Annotated[float, "stop when the expected improvement is a smaller share of the best value"]


@dataclass(frozen=True)
class Conventional(ABC):
    """What conventional searches share: they probe until they expect no improvement, whatever that costs."""

    complies: Complies = False
    initial_points: InitialPoints = 2  # "a few (e.g., two)"
    threshold: Threshold = 0.05

    def suggest(self, study: Study) -> Deployment | Stop:
        """What this search would try next, or the best measured."""
        if not study.probes_left:
            return self._stop(study, f"all {study.max_probes} probes that were allowed are used")
        view = study_view(study)
        if not view.open.any():
            return self._stop(study, "everything was tried")
        answer = self._next(view)
        if self.complies and isinstance(answer, Deployment) and not keeps_reserve(study, answer):
            return self._stop(study, "the next probe would take what the training needs")
        return answer

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        """The process's expectation of every deployment."""
        return speed_beliefs(study)

    @abstractmethod
    def _next(self, view: StudyView) -> Deployment | Stop:
        """What it would try if trying were free."""

    def _largest(self, view: StudyView, improvement: Floats, fewest_runs: int = 0) -> Deployment | Stop:
        """The deployment of the largest expected improvement, or the end where that is below the threshold."""
        improvement = np.where(view.open, improvement, -np.inf)
        row = int(np.argmax(improvement))
        if view.runs >= fewest_runs and improvement[row] < self.threshold:
            return self._stop(view.study, f"less than {self.threshold:.0%} improvement is expected from another probe")
        return view.study.space[row]

    def _stop(self, study: Study, reason: str) -> Stop:
        return Stop(final_choice(study, self.complies), reason)


@dataclass(frozen=True)
class ConvBO(Conventional):
    """Conventional Bayesian optimisation, which ignores what probes cost."""

    logs: Annotated[bool, "model logarithms and hardware facts, as the other strategies do"] = False

    def _next(self, view: StudyView) -> Deployment | Stop:
        best = best_value(view.study)
        if view.runs < self.initial_points or best is None:
            return _random_open(view)
        return self._largest(view, _improvement_of_logs(view, best) if self.logs else _improvement(view, best))


@dataclass(frozen=True)
class BOImprd(ConvBO):
    """ConvBO made budget-aware: the paper's BO_imprd."""

    complies: Complies = True


def _improvement(view: StudyView, best: Trial) -> Floats:
    """Expected improvement of the target as a share of the best known (m,)."""
    free = replace(view, study=replace(view.study, spent=Ledger()))
    targets = expect_targets(free)
    if targets is None:
        return np.ones(len(view.study.space))
    level = target(free.study, best)
    return expected_improvement(-level, -targets.mean, np.maximum(targets.sd, 1e-12)) / level


def _improvement_of_logs(view: StudyView, best: Trial) -> Floats:
    """The same by the model of logarithms that the other strategies share (m,)."""
    speeds = expect_speeds(view)
    if speeds is None:
        return np.ones(len(view.study.space))
    trainings = expect_trainings(view, speeds)
    level = float(np.log(trainings.value[view.table.position[best.deployment]]))
    return expected_improvement(level, np.log(trainings.value), trainings.sd)


def keeps_reserve(study: Study, deployment: Deployment) -> bool:
    """Whether trying this leaves what the best known deployment needs."""
    return room_for_probes(study, best_feasible(study)).admits(study, deployment)


def final_choice(study: Study, complies: bool) -> Deployment | None:
    """The best that keeps the limits, or, for who does not count the search, whose training alone does."""
    best = best_feasible(study) if complies else best_by_training(study)
    return best.deployment if best is not None else None


def best_by_training(study: Study) -> Trial | None:
    """The best by the goal as if the search had been free; where none keeps the limits, the nearest."""
    free = replace(study, spent=Ledger())
    return best_feasible(free) or nearest(free)


def best_value(study: Study) -> Trial | None:
    """Where y_o is: the best by the goal of those whose training alone keeps the limits, or else of all."""
    free = replace(study, spent=Ledger())
    measured = measured_trials(free)
    return best_feasible(free) or min(measured, key=lambda trial: goal_value(free, trial), default=None)


def _random_open(view: StudyView) -> Deployment:
    """The next open deployment in an order that the seed fixes."""
    order = np.random.default_rng(view.study.seed).permutation(len(view.study.space))
    return view.study.space[int(order[view.open[order]][0])]
