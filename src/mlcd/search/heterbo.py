"""HeterBO: the search of the MLCD paper (Yi et al., IPDPS 2020, section III.C).

What the paper says, and the reading chosen where it leaves one open:

Prior function. A Gaussian process on the training speed; here on its logarithm (see mlcd.search.speed_model).

Eq. 4, EI.      Of the training on D, whose time and cost are log-normal: the mean over its outcomes of what the whole
                job takes less than if it were trained on the incumbent, the best measured deployment that keeps the
                limits; in hours (scenarios 1 and 3) or dollars (scenario 2). It counts with the chance that D works,
                after what has failed.
Eq. 5 and 6,    TEI: T_max − T_profile − S/EI(D) and C_max − C_profile − S/EI(D) × P(m), with "EI(D)" read as the
                speed that D is expected to give: what would be left of the deadline and of the budget if D were
                profiled now and the training then ran on D. What was spent before is taken off as well. An
                outcome counts as improvement only where both are not negative, with a margin for what a probe
                cannot see of a training.
Eq. 7 and 8,    PL_T = t(m, n) and PL_C = P(m) × n × t(m, n), taken off the improvement in the goal's own unit:
                hours saved less hours of profiling, or dollars saved less dollars of profiling.
Initial points. A single node of each type (the fewest that the space has), cheapest first, left out where the
                reserve forbids. A catalogue with hundreds of types would make this the whole search: beyond
                `initial_types` of them, so many are taken evenly over the range of prices. Where the job allows
                several batch sizes (the paper fixes it), the largest and the smallest are tried as well.
Stop.           The reserve (mlcd.search.limits), and no deployment of positive net value: what it is expected to save
                less what profiling it costs. "95 % confidence interval of the expected improvement": the measured
                speeds that bound a deployment (mlcd.search.concave) and those that decide what keeps the limits count
                with their intervals of that `confidence`; the optimistic end of an expectation is no reason to profile.
Concave prior.  What lies beyond a line's measured points is bounded by them: no deployment is expected to be faster than
                linear speed-up, or than the declining slope of two measured ones, allows. After two neighbouring
                measured scale-outs with declining speed no larger one of that type (at that batch size) is tried.
No incumbent.   The paper does not say. Feasibility comes first: of the deployments most likely to keep the limits
                the one that is cheapest to profile; so too beside an incumbent that is only expected to keep them,
                as far as its reserve allows. Where the process sees none, the measured one that comes nearest
                is scaled out while linear speed-up would be enough; where it would not, the goal is given up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.special import ndtri

from mlcd.core.machines import Deployment
from mlcd.core.study import Stop, Study
from mlcd.core.trial import Trial
from mlcd.forecast.training_forecast import UNSEEN_SHARE
from mlcd.search.arrays import Floats, Mask
from mlcd.search.auto.failures import chance_of_failure
from mlcd.search.auto.features import describe
from mlcd.search.candidates import (
    affordable,
    end_of_batch_sizes,
    first_of_each_type,
    goal_cost_of_probes,
    left_after_probe,
)
from mlcd.search.concave import past_the_peak, speed_bounds
from mlcd.search.limits import best_feasible, expected_total, nearest, room_for_probes, surely_feasible
from mlcd.search.speed_model import (
    Outcomes,
    SpeedBeliefs,
    Speeds,
    Trainings,
    expect_speeds,
    expect_trainings,
    possible_outcomes,
)
from mlcd.search.table import StudyView, goal_values, study_view

_Z_TO_GIVE_UP = 6.0  # standard deviations of luck that would not help; the process is surer than it should be
_LIKELY = 0.8  # of the best chance to keep the limits: among those, the cheapest to profile


@dataclass(frozen=True)
class HeterBO(SpeedBeliefs):
    """Bayesian optimisation that counts what each probe costs."""

    initial_types: Annotated[int, "instance types that are tried first, evenly over the prices"] = 6
    confidence: Annotated[float, "of the intervals of measured speeds and of trainings"] = 0.95

    def suggest(self, study: Study) -> Deployment | Stop:
        """The next deployment to profile, or the best measured one that keeps the limits."""
        incumbent = best_feasible(study)
        choice = incumbent.deployment if incumbent is not None else None
        if not study.probes_left:
            return Stop(choice, f"all {study.max_probes} probes that were allowed are used")
        view = study_view(study)
        within_reach = view.open & affordable(view, room_for_probes(study, incumbent))
        if not within_reach.any():
            return Stop(choice, _why_nothing_is_left(view, choice))
        answer = self._next(view, within_reach & ~past_the_peak(view), surely_feasible(study))
        return answer if isinstance(answer, Deployment) else Stop(choice, answer.reason)

    def _next(self, view: StudyView, candidates: Mask, incumbent: Trial | None) -> Deployment | Stop:
        first = self._initial_point(view, candidates)
        if first is not None:
            return first
        speeds = expect_speeds(view)
        if speeds is None:
            return _least_demanding(view, candidates)
        if incumbent is None:
            return self._towards_feasible(view, candidates, speeds)
        return self._towards_better(view, candidates, speeds, incumbent)

    def _initial_point(self, view: StudyView, candidates: Mask) -> Deployment | None:
        first = first_of_each_type(view, candidates, self.initial_types)
        best = nearest(view.study)
        if first is not None or best is None or best.deployment not in view.table.position:
            return first
        return end_of_batch_sizes(view, candidates, best.deployment)

    def _towards_better(self, view: StudyView, candidates: Mask, speeds: Speeds, incumbent: Trial) -> Deployment | Stop:
        outcomes = possible_outcomes(view, speeds, speed_bounds(view, self._z))
        saving = _expected_saving(view, outcomes, incumbent, self._z)  # eq. 4
        net = saving - goal_cost_of_probes(view, incumbent)  # eq. 7 and 8
        worthwhile = candidates & (net > 0.0)
        if not worthwhile.any():
            return Stop(incumbent.deployment, "no other deployment is expected to save more than trying it costs")
        return _best_of(view, worthwhile, net)

    def _towards_feasible(self, view: StudyView, candidates: Mask, speeds: Speeds) -> Deployment | Stop:
        trainings = expect_trainings(view, speeds)
        seconds, usd = _left_to_train(view, self._z)
        possible = candidates & trainings.could_be_within(seconds, usd, _Z_TO_GIVE_UP) & _within_bounds(view, self._z)
        if not possible.any():
            return _scaled_out(view, candidates, trainings)
        chance = np.where(possible, _chance_to_work(view) * trainings.chance_within(seconds, usd), 0.0)
        likely = possible & (chance >= _LIKELY * chance.max())
        return _best_of(view, likely, -view.probe_seconds * view.probe_usd)

    @property
    def _z(self) -> float:
        return float(ndtri(0.5 + self.confidence / 2.0))


def _expected_saving(view: StudyView, outcomes: Outcomes, incumbent: Trial, z: float) -> Floats:
    """How much better the whole job is expected to end on each deployment than on the incumbent, both after its probe (m,)."""
    study, total = view.study, expected_total(view.study, incumbent)
    here = goal_values(study.goal, total.seconds + view.probe_seconds, total.usd + view.probe_usd)
    seconds = study.spent.seconds + view.probe_seconds + outcomes.seconds
    there = goal_values(study.goal, seconds, study.spent.usd + view.probe_usd + outcomes.usd)
    saved = np.where(_keeps_limits(view, outcomes, z), np.maximum(here - there, 0.0), 0.0)
    return _chance_to_work(view) * (outcomes.chance @ saved)


def _chance_to_work(view: StudyView) -> Floats:
    """What failed makes those like it less likely to be of use (m,)."""
    study = view.study
    if all(trial.failure is None for trial in study.trials):
        return np.ones(len(study.space))
    return 1.0 - chance_of_failure(study, describe(study.space))


def _keeps_limits(view: StudyView, outcomes: Outcomes, z: float) -> Mask:
    """TEI(D) ≥ 0, outcome by outcome: eq. 5 for the deadline, eq. 6 for the budget (k, m)."""
    seconds, usd = _left_to_train(view, z)
    return np.asarray((outcomes.seconds <= seconds) & (outcomes.usd <= usd))


def _left_to_train(view: StudyView, z: float) -> tuple[Floats, Floats]:
    """Seconds and dollars that a training may be expected to take after each probe, and still surely keep the limits."""
    seconds, usd = left_after_probe(view)
    margin = np.exp(z * UNSEEN_SHARE)  # the training may take that much longer than its probe lets expect
    return seconds / margin, usd / margin


def _within_bounds(view: StudyView, z: float) -> Mask:
    """Whether the concave prior leaves a speed that keeps the limits (m,)."""
    least, (seconds, usd) = view.training_seconds(speed_bounds(view, z).high), _left_to_train(view, z)
    return np.asarray((least <= seconds) & (view.usd(least) <= usd))


def _scaled_out(view: StudyView, candidates: Mask, trainings: Trainings) -> Deployment | Stop:
    """At least twice the nodes of the nearest measured deployment, if linear speed-up would keep the limits."""
    table, near = view.table, nearest(view.study)
    row = None if near is None else table.position.get(near.deployment)
    if row is not None:
        seconds, usd = left_after_probe(view)
        same = (table.kind == table.kind[row]) & (table.batch == table.batch[row])
        linear = trainings.seconds[row] * table.workers[row] / table.workers
        enough = (linear <= seconds) & (trainings.usd[row] <= usd)
        larger = candidates & same & enough & (table.nodes >= 2 * table.nodes[row])
        if larger.any():
            return _best_of(view, larger, -table.nodes)
    return Stop(None, "nothing measured keeps the limits, and nothing else is likely to")


def _best_of(view: StudyView, candidates: Mask, score: Floats) -> Deployment:
    return view.table.deployments[int(np.argmax(np.where(candidates, score, -np.inf)))]


def _least_demanding(view: StudyView, candidates: Mask) -> Deployment | Stop:
    """After nothing but failures: the smallest share of the batch on each device, cheapest first."""
    if not candidates.any():
        return Stop(None, "every deployment that could be tried has failed")
    lightest = candidates & (view.table.local_batch <= view.table.local_batch[candidates].min())
    return _best_of(view, lightest, -view.probe_usd)


def _why_nothing_is_left(view: StudyView, choice: Deployment | None) -> str:
    if not view.open.any():
        return "everything was tried"
    if choice is None:
        return "the limits leave nothing to try another deployment with"
    return f"what is left of the limits is needed to train on {choice}"
