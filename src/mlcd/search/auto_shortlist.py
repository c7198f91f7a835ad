"""Which few of thousands of deployments are worth a closer look.

Glossary (N deployments, C candidates for a probe):
    hoped       value at a throughput one standard deviation above what is expected, with the chance to keep the
                limits at that throughput: (N,)
    promise     two-sided: how much two deployments' order could turn if one candidate were known, the closed form
                of the expected gain of a choice between the leader and one rival, minus the price: (C,)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from mlcd.search.auto_features import Bools, Floats, Rows
from mlcd.search.auto_model import TYPICAL_ERROR, Beliefs
from mlcd.search.auto_stakes import Stakes

_CLOSER = 48  # deployments that may be chosen
_PROBES = 32  # that may be tried next
_CANDIDATES = 600
_RIVALS = 16
_NOTHING = 3.0


@dataclass(frozen=True)
class Shortlist:
    """Rows of the space."""

    choices: Rows
    probes: Rows


def shortlist(beliefs: Beliefs, stakes: Stakes, measured: Bools, open_: Bools, next_: Bools) -> Shortlist:
    """The deployments to consider as a choice, now or after a probe, and those to consider as the next probe."""
    hoped = _soft_value(beliefs, stakes, optimism=1.0)
    expected = _soft_value(beliefs, stakes, optimism=0.0)
    runs = open_ | measured
    leaders = _least(np.where(runs, hoped, np.inf), _CLOSER)
    surest = (
        _least(np.where(runs, -_odds(beliefs, stakes), np.inf), 8) if stakes.goal.limited else leaders[:1]
    )
    choices = np.unique(np.concatenate((leaders, surest, np.flatnonzero(measured))))
    candidates = _candidates(hoped, stakes, beliefs, next_)
    if len(candidates) > _PROBES:
        promise = _promise(beliefs, stakes, expected, candidates, leaders[:_RIVALS])
        best = candidates[_least(-promise, _PROBES - 12)]
        likely = np.intersect1d(leaders[:8], candidates)
        safe = np.intersect1d(surest[:4], candidates)
        candidates = np.unique(np.concatenate((best, likely, safe)))
    return Shortlist(np.union1d(choices, candidates), candidates)


def _soft_value(beliefs: Beliefs, stakes: Stakes, optimism: float) -> Floats:
    """Value of the job, blended by the chance to keep the limits with that of having nothing: (N,)."""
    mean, sd = beliefs.mean, beliefs.sd
    value = stakes.value(stakes.work * np.exp(-mean - optimism * sd + (1 - optimism) * sd**2 / 2))
    if not stakes.goal.limited:
        return value
    chance = ndtr((mean - stakes.required()) / sd + optimism)
    nothing = _NOTHING * value[np.argmax(chance)]
    blended: Floats = chance * value + (1.0 - chance) * nothing
    return blended


def _odds(beliefs: Beliefs, stakes: Stakes) -> Floats:
    mean, sd = beliefs.mean, beliefs.sd
    return (mean - stakes.required()) / sd


def _candidates(hoped: Floats, stakes: Stakes, beliefs: Beliefs, open_: Bools) -> Rows:
    """All open rows, or the most hopeful of them and the cheapest probe of each of their types."""
    rows = np.flatnonzero(open_)
    if len(rows) <= _CANDIDATES:
        return rows
    hopeful = rows[_least(hoped[rows], _CANDIDATES // 2)]
    kin = rows[np.isin(beliefs.space.type_id[rows], np.unique(beliefs.space.type_id[hopeful]))]
    order = kin[np.argsort(stakes.probe_value()[kin], kind="stable")]
    _, first = np.unique(beliefs.space.type_id[order], return_index=True)
    return np.union1d(hopeful, order[first])


def _promise(beliefs: Beliefs, stakes: Stakes, value: Floats, candidates: Rows, rivals: Rows) -> Floats:
    leader = rivals[np.argmin(value[rivals])]
    rivals = rivals[rivals != leader]
    if not len(rivals):
        return -stakes.probe_value()[candidates]
    both = np.concatenate(([leader], rivals))
    covariances = _mixed_covariance(beliefs, candidates, both)
    slope = covariances / np.sqrt(beliefs.sd[candidates] ** 2 + TYPICAL_ERROR**2)[:, None]
    turn = np.maximum(np.abs(slope[:, 1:] - slope[:, :1]), 1e-9)  # (C, R)
    z = (np.log(value[leader]) - np.log(value[rivals])) / turn
    gain = turn * (np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi) + z * ndtr(z))
    promise: Floats = value[leader] * gain.max(axis=1) - stakes.probe_value()[candidates]
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
