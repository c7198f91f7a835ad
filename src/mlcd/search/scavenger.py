"""Scavenger's search (Tyagi and Sharma, CCGrid 2022, sections III.B to III.E and IV), and how it is read here.

    K   nodes        B   global batch size        a type: one instance type; a family: all types with the same GPU

full        Every deployment is profiled, from (K_min, B_min) on: the fewest nodes and the smallest batch first.
partial     (K_min, B_min) of each type, cheapest first; then a few profiles of each type, chosen so that they tell most of
            the rest (forecast.design: the extreme points of K and B come first), from small to large. The models
            (search.space_models) foretell the rest.
none        No probe, where the stored models of an earlier job of the same or a similar program are good enough: each of
            its profiles foretold from the others within `good_enough`. Else as partial, and the plan says why.

Whatever the mode, the search stays at its first deployment until the gradient noise has settled there.

What the paper leaves open. It grows one type of machine within limits on K that the user's limits give; here a type
grows while some deployment of it is expected to save more, in the goal's own unit, than its probe costs. What is
chosen need not have been tried, but its devices hold no more samples than was seen to fit on its type. A reserve for
the best measured deployment, or else for the best foretold one, keeps deadline and budget (search.limits).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from mlcd.core.machines import Deployment
from mlcd.core.study import Belief, Stop, Study
from mlcd.forecast.design import FIRST_ROUND
from mlcd.search.arrays import Floats, Mask
from mlcd.search.candidates import types_over_prices
from mlcd.search.growth import next_profile
from mlcd.search.outlook import Outlook, outlook_of
from mlcd.search.space_models import SpaceModels, space_models
from mlcd.search.speed_model import speed_beliefs
from mlcd.search.stored_models import Reuse, why_none, with_stored_model
from mlcd.search.table import Table

SETTLING_PROBES = 3  # of the starting point, while its gradient noise still moves

_LIKELY = 0.8  # of the best chance to keep the limits: among those, the cheapest to profile
_SMALL_CHANCE = 0.02  # below it the goal is given up


@dataclass(frozen=True)
class Scavenger:
    """Models of step time and of samples to the target, from a few profiles or from earlier jobs; the best by them."""

    mode: Annotated[
        Literal["full", "partial", "none"], "how much is profiled: everything, a few deployments, nothing"
    ] = "partial"
    types: Annotated[int, "instance types that are profiled, evenly over the prices", Field(ge=1)] = 6
    per_type: Annotated[int, "profiles of each instance type at most, in mode partial", Field(ge=1)] = 6
    good_enough: Annotated[
        float, "largest mean error of stored models that are used without a probe", Field(ge=0.0, allow_inf_nan=False)
    ] = 0.2

    def suggest(self, study: Study) -> Deployment | Stop:
        """The next deployment to profile, or the best by the models."""
        if not study.space:
            return Stop(None, "there is nothing to choose from")
        reuse = self._reuse(study)
        outlook = outlook_of(study, self._models(study, reuse))
        if isinstance(reuse, Reuse) and outlook.choice is not None:
            return Stop(outlook.choice, f"no probe was needed: {reuse}")
        answer = self._next(outlook)
        if isinstance(answer, Deployment):
            return answer
        return Stop(answer.choice, "; ".join(part for part in (self._fallen_back(study), answer.reason) if part))

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        """What the models say, and of types without one what a process over the measured speeds does."""
        models = self._models(study, self._reuse(study))
        others = {belief.deployment: belief for belief in speed_beliefs(study)}
        expected = (models.belief(d) if models.knows(d) else others.get(d) for d in study.space)
        return tuple(belief for belief in expected if belief is not None)

    def _reuse(self, study: Study) -> Reuse | None:
        """The stored model that makes probes needless, in mode none and before any."""
        return with_stored_model(study, self.good_enough) if self.mode == "none" and not study.tried else None

    def _models(self, study: Study, reuse: Reuse | None) -> SpaceModels:
        if reuse is None:
            return space_models(study)
        return space_models(replace(study, earlier=(reuse.job.trials,)), FIRST_ROUND, reuse.error)

    def _fallen_back(self, study: Study) -> str:
        if self.mode != "none" or not study.tried:
            return ""
        return f"mode none went on as partial, for {why_none(study, self.good_enough)}"

    def _next(self, outlook: Outlook) -> Deployment | Stop:
        study, choice = outlook.view.study, outlook.choice
        if not study.probes_left:
            return Stop(choice, f"all {study.max_probes} probes that were allowed are used")
        again = _until_settled(outlook)
        if again is not None:
            return again
        if self.mode == "full" and (next_one := _first_untried(outlook)) is not None:
            return next_one
        candidates = outlook.affordable
        if not candidates.any():
            return Stop(choice, _why_nothing_is_left(outlook))
        start = _starting_point(outlook, candidates, self.types)
        return start or self._grow(outlook, candidates)

    def _grow(self, outlook: Outlook, candidates: Mask) -> Deployment | Stop:
        known = candidates & outlook.modelled
        if not outlook.modelled.any():
            return _least_demanding(outlook, candidates)
        if outlook.choice is None:
            return _towards_feasible(outlook, known)
        net = np.where(known, outlook.net_saving(), -np.inf)
        probe = next_profile(outlook, net, self.per_type)
        return probe or Stop(outlook.choice, "no other deployment is expected to save more than profiling it costs")


def _until_settled(outlook: Outlook) -> Deployment | None:
    """The starting point once more, while its gradient noise moves: with checkpoints that is training, not waiting."""
    study = outlook.view.study
    last = study.trials[-1] if study.trials else None
    unsettled = last is not None and last.measurement is not None and last.measurement.noise_moves
    if last is None or not unsettled or study.pending or len(study.trials) >= SETTLING_PROBES:
        return None
    row = outlook.view.table.position.get(last.deployment)
    return last.deployment if row is not None and outlook.within_limits[row] else None


def _starting_point(outlook: Outlook, candidates: Mask, types: int) -> Deployment | None:
    """(K_min, B_min) of the next type, cheapest first; None: all were tried.

    After the first probe earlier jobs of the program count as well: it has shown how fast this one is beside them.
    """
    table, study = outlook.view.table, outlook.view.study
    tried = set(table.kind[table.rows(tuple(study.tried))].tolist())
    if study.trials:
        tried |= {table.kinds.index(name) for name in outlook.models.instances if name in table.kinds}
    for kind in types_over_prices(table, types):
        mine = candidates & (table.kind == kind)
        if kind not in tried and mine.any():
            return _smallest(table, mine)
    return None


def _first_untried(outlook: Outlook) -> Deployment | None:
    """The smallest deployment that was not tried and leaves the limits for the best measured one; None: none does."""
    left = outlook.view.open & outlook.beside_measured
    return _smallest(outlook.view.table, left) if left.any() else None


def _smallest(table: Table, mine: Mask) -> Deployment:
    """Fewest nodes first, then the smallest batch, then the lowest price."""
    rows = np.flatnonzero(mine)
    order = np.lexsort((table.usd_per_hour[rows], table.batch[rows], table.nodes[rows]))
    return table.deployments[int(rows[order[0]])]


def _towards_feasible(outlook: Outlook, known: Mask) -> Deployment | Stop:
    """Nothing is expected to keep the limits: of what most likely does, the cheapest to profile."""
    view, chance = outlook.view, np.where(known, outlook.chance_to_keep_limits(), 0.0)
    if chance.max(initial=0.0) < _SMALL_CHANCE:
        return Stop(None, "no deployment is likely to keep the limits")
    likely = known & (chance >= _LIKELY * chance.max())
    return _cheapest(outlook, likely, view.probe_seconds * view.probe_usd)


def _least_demanding(outlook: Outlook, candidates: Mask) -> Deployment:
    """After nothing but failures: the smallest share of the batch on each device, cheapest first."""
    local = outlook.view.table.local_batch
    return _cheapest(outlook, candidates & (local <= local[candidates].min()), outlook.view.probe_usd)


def _cheapest(outlook: Outlook, mine: Mask, price: Floats) -> Deployment:
    return outlook.view.table.deployments[int(np.argmin(np.where(mine, price, np.inf)))]


def _why_nothing_is_left(outlook: Outlook) -> str:
    if not outlook.view.open.any():
        return "everything was tried"
    held = outlook.choice if (outlook.view.open & outlook.beside_measured).any() else outlook.best_measured
    if held is None:
        return "the limits leave nothing to try another deployment with"
    return f"what is left of the limits is needed to train on {held}"
