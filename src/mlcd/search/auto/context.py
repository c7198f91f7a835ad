"""A study read once: beliefs, costs and what may be tried, one row for each deployment of the space.

Glossary (N deployments of the space):
    measured     the program ran there: (N,)
    open         may be tried: not tried, not pending, has the GPU that the program needs, and its probe leaves a reserve: (N,)
    next         may be tried now: what is open; for the first probe only the cheap part of it: (N,)
    reserve      what the training on a measured deployment takes, at the slow end of what is believed
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.core.study import Study
from mlcd.core.trial import Measurement, Trial
from mlcd.search.arrays import Floats, Mask
from mlcd.search.auto.beliefs import TYPICAL_ERROR, Beliefs, Evidence, believe
from mlcd.search.auto.costs import RISK_SD, Costs, costs_of
from mlcd.search.auto.failures import chance_of_failure, lacks_gpu
from mlcd.search.auto.features import Features, describe, join
from mlcd.search.auto.scaling_laws import Prior, reference_of
from mlcd.search.limits import PROBE_SURCHARGE, room_for_probes

_USUAL_SECONDS = 12 * 3600.0  # of a training on a large deployment, where no limit hints at it
_FIRST_SHARE = 0.25  # of the open probes, by price: the first is one of these
_LIMIT_SHARE = 0.5  # of a limit that a large deployment takes: users set limits that they believe can be kept


@dataclass(frozen=True)
class SearchContext:
    """All that a decision is made from."""

    study: Study
    beliefs: Beliefs
    costs: Costs
    failing: Floats  # chance of failure: (N,)
    measured: Mask
    open: Mask
    next: Mask


def make_context(study: Study, prior: Prior) -> SearchContext:
    """Read a study."""
    space = describe(study.space)
    costs = costs_of(study, space)
    beliefs = believe(space, _evidence(study), _guess_level(costs, space), prior)
    measured = _mask(study, space, (trial.deployment for trial in study.trials if trial.measurement is not None))
    failing = np.where(measured, 0.0, chance_of_failure(study, space))
    untried = ~_mask(study, space, study.tried) & ~lacks_gpu(study)
    context = SearchContext(study, beliefs, costs, failing, measured, untried, untried)
    open_ = untried & _keeps_reserve(context)
    return replace(context, open=open_, next=open_ if measured.any() else _cheap(open_, costs))


def beliefs_of_study(study: Study, prior: Prior) -> Beliefs:
    """The beliefs without the rest of the context."""
    space = describe(study.space)
    return believe(space, _evidence(study), _guess_level(costs_of(study, space), space), prior)


def _mask(study: Study, space: Features, deployments: Iterable[Deployment]) -> Mask:
    """Where these deployments are in the space. By features first: to look up each of thousands takes longer."""
    mask = np.zeros(len(space), dtype=bool)
    for deployment in deployments:
        one = describe([deployment])
        alike = (space.type_id == one.type_id) & (space.nodes == one.nodes) & (space.log_batch == one.log_batch)
        mask[[row for row in np.flatnonzero(alike) if study.space[row] == deployment]] = True
    return mask


def _evidence(study: Study) -> Evidence:
    """The measurements of this study and of earlier ones, and what is being measured."""
    studies = [_measured(trials) for trials in (study.trials, *study.earlier)]
    pairs = [pair for pairs in studies for pair in pairs]
    return Evidence(
        seen=join([describe([d for d, _ in pairs], number) for number, pairs in enumerate(studies)]),
        log_speed=np.log(np.array([seen.samples_per_second for _, seen in pairs], dtype=float)),
        error=np.array([max(TYPICAL_ERROR, seen.relative_error) for _, seen in pairs], dtype=float),
        pending=describe(study.pending),
    )


def _measured(trials: Iterable[Trial]) -> list[tuple[Deployment, Measurement]]:
    seen = [(trial.deployment, trial.measurement) for trial in trials]
    return [(deployment, each) for deployment, each in seen if each is not None and each.samples_per_second > 0]


def _guess_level(costs: Costs, space: Features) -> float:
    """The job's level at which a large deployment takes the usual time, or that share of the nearer limit."""
    log_r, log_g = reference_of(space, space.take(np.arange(0))).hints(space)
    large = float(np.quantile(log_r + log_g + space.log_nodes, 0.9))
    seconds = _USUAL_SECONDS
    if costs.goal.deadline_seconds is not None:
        seconds = _LIMIT_SHARE * costs.goal.deadline_seconds
    elif costs.goal.budget_usd is not None:
        seconds = _LIMIT_SHARE * costs.goal.budget_usd * 3600.0 / float(np.quantile(costs.usd, 0.9))
    return float(np.log(np.median(costs.work) / max(seconds, 1.0)) - large)


def _cheap(open_: Mask, costs: Costs) -> Mask:
    """The cheap part of what is open: nothing is known of the job yet, so the first probe costs little."""
    if not open_.any():
        return open_
    price = costs.probe_value()
    cheap: Mask = open_ & (price <= np.quantile(price[open_], _FIRST_SHARE))
    return cheap


def _keeps_reserve(context: SearchContext) -> Mask:
    """Which probes leave the training on some measured deployment within both limits: (N,).

    It need not be the best one: `value` weighs whether a probe is worth losing that.
    """
    study, costs = context.study, context.costs
    if not costs.goal.limited:
        return np.ones(len(costs.usd), dtype=bool)
    free = room_for_probes(study, None)
    reserves = _reserves(context) or [(0.0, 0.0)]
    seconds, usd = (PROBE_SURCHARGE * each for each in (costs.probe_seconds, costs.probe_usd))
    kept = [(seconds <= free.seconds - held[0]) & (usd <= free.usd - held[1]) for held in reserves]
    some: Mask = np.any(kept, axis=0)
    return some


def _reserves(context: SearchContext) -> list[tuple[float, float]]:
    """Seconds and dollars of the training on each measured deployment that surely keeps the limits."""
    costs, rows = context.costs, np.flatnonzero(context.measured)
    own, mean, sd = costs.take(rows), context.beliefs.mean[rows], context.beliefs.sd[rows]
    slow = mean - RISK_SD * sd
    seconds = own.start_seconds + own.work * np.exp(-slow)
    usd = own.prices.rental_usd(seconds)
    safe = slow >= own.required()
    return list(zip(seconds[safe].tolist(), usd[safe].tolist(), strict=True))
