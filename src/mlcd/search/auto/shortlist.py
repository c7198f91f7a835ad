"""Which few of thousands of deployments are worth a closer look.

Glossary (N deployments, C candidates for a probe):
    hoped       value at a throughput one standard deviation above what is expected, with the chance to keep the
                limits at that throughput: (N,)
    promise     what a probe could save by changing the order of the leader and one rival: the closed form of the
                expected gain of the choice between the two, minus the price: (C,)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from mlcd.search.arrays import Floats, Mask, Rows
from mlcd.search.auto.beliefs import TYPICAL_ERROR, Beliefs
from mlcd.search.auto.context import SearchContext
from mlcd.search.auto.costs import Costs
from mlcd.search.auto.outcomes import NOTHING

_CHOICES = 48  # deployments that may be chosen
_PROBES = 32  # deployments that may be tried next
_CANDIDATES = 600
_RIVALS = 16


@dataclass(frozen=True)
class Shortlist:
    """The deployments that matter, as rows of the space."""

    choices: Rows
    probes: Rows


def shortlist(context: SearchContext) -> Shortlist:
    """The deployments to consider as a choice, now or after a probe, and those to consider as the next probe."""
    beliefs, costs, measured = context.beliefs, context.costs, context.measured
    hoped = _soft_value(beliefs, costs, optimism=1.0)
    expected = _soft_value(beliefs, costs, optimism=0.0)
    runs = context.open | measured
    leaders = _least(np.where(runs, hoped, np.inf), _CHOICES)
    surest = _least(np.where(runs, -_odds(beliefs, costs), np.inf), 8) if costs.goal.limited else leaders[:1]
    choices = np.unique(np.concatenate((leaders, surest, np.flatnonzero(measured))))
    candidates = _candidates(hoped, costs, beliefs, context.next)
    if len(candidates) > _PROBES:
        promise = _promise(beliefs, costs, expected, candidates, leaders[:_RIVALS])
        best = candidates[_least(-promise, _PROBES - 12)]
        likely = np.intersect1d(leaders[:8], candidates)
        safe = np.intersect1d(surest[:4], candidates)
        candidates = np.unique(np.concatenate((best, likely, safe)))
    return Shortlist(np.union1d(choices, candidates), candidates)


def _soft_value(beliefs: Beliefs, costs: Costs, optimism: float) -> Floats:
    """Value of the job, blended by the chance to keep the limits with that of having nothing: (N,)."""
    mean, sd = beliefs.mean, beliefs.sd
    value = costs.value(costs.work * np.exp(-mean - optimism * sd + (1 - optimism) * sd**2 / 2))
    if not costs.goal.limited:
        return value
    chance = ndtr((mean - costs.required()) / sd + optimism)
    nothing = NOTHING * value[np.argmax(chance)]
    blended: Floats = chance * value + (1.0 - chance) * nothing
    return blended


def _odds(beliefs: Beliefs, costs: Costs) -> Floats:
    mean, sd = beliefs.mean, beliefs.sd
    return (mean - costs.required()) / sd


def _candidates(hoped: Floats, costs: Costs, beliefs: Beliefs, open_: Mask) -> Rows:
    """All open rows, or the most hopeful of them and the cheapest probe of each of their types."""
    rows = np.flatnonzero(open_)
    if len(rows) <= _CANDIDATES:
        return rows
    hopeful = rows[_least(hoped[rows], _CANDIDATES // 2)]
    siblings = rows[np.isin(beliefs.space.type_id[rows], np.unique(beliefs.space.type_id[hopeful]))]
    order = siblings[np.argsort(costs.probe_value()[siblings], kind="stable")]
    _, first = np.unique(beliefs.space.type_id[order], return_index=True)
    return np.union1d(hopeful, order[first])


def _promise(beliefs: Beliefs, costs: Costs, value: Floats, candidates: Rows, rivals: Rows) -> Floats:
    leader = rivals[np.argmin(value[rivals])]
    rivals = rivals[rivals != leader]
    if not len(rivals):
        return -costs.probe_value()[candidates]
    both = np.concatenate(([leader], rivals))
    covariances = _mixed_covariance(beliefs, candidates, both)
    slope = covariances / np.sqrt(beliefs.sd[candidates] ** 2 + TYPICAL_ERROR**2)[:, None]
    turn = np.maximum(np.abs(slope[:, 1:] - slope[:, :1]), 1e-9)  # (C, R)
    z = (np.log(value[leader]) - np.log(value[rivals])) / turn
    gain = turn * (np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi) + z * ndtr(z))
    promise: Floats = value[leader] * gain.max(axis=1) - costs.probe_value()[candidates]
    return promise


def _mixed_covariance(beliefs: Beliefs, rows: Rows, columns: Rows) -> Floats:
    """Covariances over all hypotheses, within and between them: (rows, columns)."""
    shares = np.bincount(beliefs.group, weights=beliefs.weights, minlength=len(beliefs.variances))
    within = np.einsum("g,grc->rc", shares, beliefs.covariances(rows, columns))
    gaps = beliefs.means - beliefs.weights @ beliefs.means
    between = np.einsum("h,hr,hc->rc", beliefs.weights, gaps[:, rows], gaps[:, columns])
    mixed: Floats = within + between
    return mixed


def _least(scores: Floats, count: int) -> Rows:
    """The places of the smallest scores, best first, without those at infinity."""
    count = min(count, len(scores))
    places = np.argpartition(scores, count - 1)[:count] if count < len(scores) else np.arange(len(scores))
    order = places[np.argsort(scores[places], kind="stable")]
    return order[np.isfinite(scores[order])]
