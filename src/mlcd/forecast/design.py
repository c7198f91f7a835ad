"""Which deployments to profile, so that the rest is known best.

Scavenger profiles the extreme points of (K, B). So it begins here: the fewest devices with the smallest and the largest
piece, which tell what a device does by itself. Then a rule: add the placement whose profile lowers the summed variance
of log τ over all placements the most (A-optimal design, greedy). Before anything is seen the rule knows only the
priors; after a first round the model is fitted again after every profile, so that it knows where this job saturates and
how much it synchronises before it asks for the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mlcd.forecast.parallel import Placement
from mlcd.forecast.step_fit import STEP_SPREAD, Profile, StepModel, StepSpace, fit_steps

Array = NDArray[np.float64]

PROFILES_PER_TYPE = 6
FIRST_ROUND = 3


def profile_partly(
    placements: Sequence[Placement],
    profile: Callable[[Placement], float],
    per_type: int = PROFILES_PER_TYPE,
) -> StepModel:
    """The model of a family from a few profiles of each instance type: a first round, then each by all before it."""
    space = StepSpace(tuple(placements))
    seen = [Profile(one, profile(one)) for one in choose_profiles(space, min(FIRST_ROUND, per_type))]
    while True:
        model = fit_steps(placements, seen)
        already = [one.placement for one in seen]
        chosen = choose_profiles(space, per_type, already, model.x)[len(seen) :]
        if not chosen:
            return model
        seen.append(Profile(chosen[0], profile(chosen[0])))


def choose_profiles(
    space: StepSpace, per_type: int, already: Sequence[Placement] = (), believed: Array | None = None
) -> list[Placement]:
    """The placements to profile, those already profiled first; at most so many of each instance type."""
    slopes = space.slopes(space.prior_mean(0.0) if believed is None else believed)
    covariance = (slopes * space.prior_spread**2) @ slopes.T + space.missed(np.arange(len(space.placements)))
    left = np.full(len(space.kinds), per_type)
    free = np.ones(len(space.placements), dtype=bool)
    chosen: list[int] = []
    seen = [space.index(placement) for placement in already]
    taken = Counter(space.kind[seen].tolist())
    corners = [row for row in _corners(space) if row not in seen and taken[int(space.kind[row])] < per_type]
    ahead = [*seen, *corners[: per_type // 3]]  # with two profiles nothing is left for the rest
    while True:
        variances = np.diag(covariance) + STEP_SPREAD**2
        row = ahead.pop(0) if ahead else _best(covariance, variances, free & (left[space.kind] > 0))
        if row is None:
            return [space.placements[one] for one in chosen]
        chosen.append(row)
        free[row] = False
        left[space.kind[row]] -= 1
        covariance = covariance - np.outer(covariance[row], covariance[row]) / variances[row]


def _corners(space: StepSpace) -> list[int]:
    """The fewest devices with the smallest and the largest piece: what a device does by itself."""
    fewest = min(one.devices for one in space.placements)
    alone = [row for row, one in enumerate(space.placements) if one.devices == fewest]
    ordered = sorted(alone, key=lambda row: (space.micro[row], -space.pieces[row]))
    return list(dict.fromkeys((ordered[0], ordered[-1])))


def _best(covariances: Array, variances: Array, allowed: NDArray[np.bool_]) -> int | None:
    """The placement that teaches most about all; None where none is left."""
    if not allowed.any():
        return None
    taught = (covariances**2 / variances).sum(axis=0)
    return int(np.where(allowed, taught, -1.0).argmax())
