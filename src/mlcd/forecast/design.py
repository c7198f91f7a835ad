"""Which deployments to profile, so that the rest is known best.

Scavenger profiles the extreme points of (K, B). That is what comes out here too, first of all, but by a rule:
add one at a time the placement whose profile lowers the summed variance of log τ over all placements the most
(A-optimal design, greedy). Before anything is seen the rule knows only the priors; after a first round it
knows where this job saturates and how much it synchronises.
"""

from __future__ import annotations

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
    """The model of a family from a few profiles of each instance type, chosen in two rounds."""
    space = StepSpace(tuple(placements))
    first = choose_profiles(space, min(FIRST_ROUND, per_type))
    seen = [Profile(one, profile(one)) for one in first]
    model = fit_steps(placements, seen)
    chosen = choose_profiles(space, per_type, first, model.x)
    seen += [Profile(one, profile(one)) for one in chosen[len(first) :]]
    return fit_steps(placements, seen)


def choose_profiles(
    space: StepSpace, per_type: int, already: Sequence[Placement] = (), believed: Array | None = None
) -> list[Placement]:
    """The placements to profile, those already profiled first; at most so many of each instance type."""
    slopes = space.slopes(space.prior_mean(0.0) if believed is None else believed)
    covariance = np.diag(space.prior_spread**2)
    left = np.full(len(space.kinds), per_type)
    free = np.ones(len(space.placements), dtype=bool)
    chosen: list[int] = []
    ahead = [space.index(placement) for placement in already]
    while True:
        projected = slopes @ covariance
        variances = np.einsum("ij,ij->i", projected, slopes) + STEP_SPREAD**2
        row = ahead.pop(0) if ahead else _best(projected @ slopes.T, variances, free & (left[space.kind] > 0))
        if row is None:
            return [space.placements[one] for one in chosen]
        chosen.append(row)
        free[row] = False
        left[space.kind[row]] -= 1
        covariance = covariance - np.outer(projected[row], projected[row]) / variances[row]


def _best(covariances: Array, variances: Array, allowed: NDArray[np.bool_]) -> int | None:
    """The placement that teaches most about all; None where none is left."""
    if not allowed.any():
        return None
    taught = (covariances**2 / variances).sum(axis=0)
    return int(np.where(allowed, taught, -1.0).argmax())
