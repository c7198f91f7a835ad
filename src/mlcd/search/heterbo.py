"""HeterBO: the search of the MLCD paper (Yi et al., IPDPS 2020, section III.C).

What the paper says, and the reading chosen where it leaves one open:

Prior function. A Gaussian process on the training speed; here on its logarithm (see mlcd.search.speed_model).

Eq. 4, EI.      On y(D) = log of what the goal makes small of the training on D: hours (scenarios 1 and 3),
                dollars (scenario 2). y_o is that of the incumbent: the best measured deployment that keeps the
                limits. exp turns EI into the share of the incumbent's training that D is expected to save.
Eq. 5 and 6,    TEI: T_max − T_profile − S/EI(D) and C_max − C_profile − S/EI(D) × P(m), with "EI(D)" read as the
                speed that D is expected to give: what would be left of the deadline and of the budget if D were
                profiled now and the training then ran on D. What was spent before is taken off as well. The
                speed is uncertain, so the improvement counts with the probability that both are not negative.
Eq. 7 and 8,    PL_T = t(m, n) and PL_C = P(m) × n × t(m, n), taken off the improvement in the goal's own unit:
                hours saved less hours of profiling, or dollars saved less dollars of profiling.
Initial points. A single node of each type (the fewest that the space has), cheapest first, left out where the
                reserve forbids. A catalogue with hundreds of types would make this the whole search: beyond
                `initial_types` of them, so many are taken evenly over the range of prices. Where the job allows
                several batch sizes (the paper fixes it), the largest and the smallest are tried as well.
Stop.           The reserve (mlcd.search.limits). "95 % confidence interval of the expected improvement": D is
                profiled only while the optimistic end of the interval promises more than profiling D costs.
Concave prior.  Two neighbouring measured scale-outs of one type (at one batch size) with declining speed: no
                larger scale-out of it is tried.
No incumbent.   The paper does not say. Feasibility comes first: of the deployments most likely to keep the limits
                the one that is cheapest to profile. Where the process sees none, the measured one that comes nearest
                is scaled out while linear speed-up would be enough; where it would not, the goal is given up.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
from scipy.special import ndtri

from mlcd.core.machines import Deployment
from mlcd.core.study import Stop, Study
from mlcd.core.trial import Trial
from mlcd.forecast.training_forecast import speed_error
from mlcd.search.arrays import Floats, Mask
from mlcd.search.candidates import (
    affordable,
    end_of_batch_sizes,
    first_of_each_type,
    goal_cost_of_probes,
    left_after_probe,
)
from mlcd.search.limits import best_feasible, nearest, room_for_probes, surely_feasible
from mlcd.search.speed_model import (
    SpeedBeliefs,
    Speeds,
    Trainings,
    expect_speeds,
    expect_trainings,
    expected_improvement,
)
from mlcd.search.table import StudyView, study_view
from mlcd.search.trials import measured_trials

_Z_TO_GIVE_UP = 6.0  # standard deviations of luck that would not help; the process is surer than it should be


@dataclass(frozen=True)
class HeterBO(SpeedBeliefs):
    """Bayesian optimisation that counts what each probe costs."""

    initial_types: Annotated[int, "instance types that are tried first, evenly over the prices"] = 6
    confidence: Annotated[float, "of the interval of the expected improvement, for stopping"] = 0.95

    def suggest(self, study: Study) -> Deployment | Stop:
        """The next deployment to profile, or the best measured one that keeps the limits."""
        best = best_feasible(study)
        choice = best.deployment if best is not None else None
        if not study.probes_left:
            return Stop(choice, f"all {study.max_probes} probes that were allowed are used")
        view, incumbent = study_view(study), surely_feasible(study)
        within_reach = view.open & affordable(view, room_for_probes(study, incumbent))
        if not within_reach.any():
            return Stop(choice, _why_nothing_is_left(view, choice))
        answer = self._next(view, within_reach & ~past_the_peak(view), incumbent)
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

    def _towards_better(
        self, view: StudyView, candidates: Mask, speeds: Speeds, incumbent: Trial
    ) -> Deployment | Stop:
        trainings = expect_trainings(view, speeds)
        best = float(trainings.value[view.table.position[incumbent.deployment]])
        penalty = goal_cost_of_probes(view, incumbent)  # eq. 7 and 8
        promise = best - trainings.value * np.exp(-self._z * trainings.sd)
        worthwhile = candidates & (promise > penalty)
        if not worthwhile.any():
            return Stop(
                incumbent.deployment, "no other deployment promises to save more than trying it costs"
            )
        improvement = expected_improvement(np.log(best), np.log(trainings.value), trainings.sd)  # eq. 4
        saved = best * (1.0 - np.exp(-improvement)) * _chance_of_keeping_limits(view, trainings)
        return _best_of(view, worthwhile, saved - penalty)

    def _towards_feasible(self, view: StudyView, candidates: Mask, speeds: Speeds) -> Deployment | Stop:
        trainings = expect_trainings(view, speeds)
        seconds, usd = left_after_probe(view)
        possible = candidates & trainings.could_be_within(seconds, usd, _Z_TO_GIVE_UP)
        if not possible.any():
            return _scaled_out(view, candidates, trainings)
        chance = np.where(possible, trainings.chance_within(seconds, usd), 0.0)
        likely = possible & (chance >= 0.5 * chance.max())
        return _best_of(view, likely, -view.probe_seconds * view.probe_usd)

    @property
    def _z(self) -> float:
        return float(ndtri(0.5 + self.confidence / 2.0))


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


def past_the_peak(view: StudyView) -> Mask:
    """The concave prior: scale-outs beyond two neighbouring ones of declining speed (m,)."""
    table = view.table
    mask = np.zeros(len(table.nodes), dtype=bool)
    lines: dict[tuple[int, float, float], list[Trial]] = {}
    for trial in measured_trials(view.study):
        row = table.position.get(trial.deployment)
        if row is not None:
            line = int(table.kind[row]), float(table.batch[row]), float(table.servers[row])
            lines.setdefault(line, []).append(trial)
    for (kind, batch, servers), trials in lines.items():
        peak = _declines_at(trials)
        if peak is not None:
            alike = (table.kind == kind) & (table.batch == batch) & (table.servers == servers)
            mask |= alike & (table.nodes > peak)
    return mask


def _declines_at(trials: list[Trial]) -> int | None:
    """The fewest nodes at which more nodes were slower, by more than the measurements' errors."""
    ordered = sorted(trials, key=lambda trial: trial.deployment.nodes)
    for fewer, more in pairwise(ordered):
        if fewer.measurement is None or more.measurement is None:
            continue
        error = float(np.hypot(speed_error(fewer.measurement), speed_error(more.measurement)))
        if more.measurement.samples_per_second < fewer.measurement.samples_per_second * np.exp(-error):
            return more.deployment.nodes
    return None


def _chance_of_keeping_limits(view: StudyView, trainings: Trainings) -> Floats:
    """Probability that TEI(D) ≥ 0: eq. 5 for the deadline, eq. 6 for the budget."""
    return trainings.chance_within(*left_after_probe(view))


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
