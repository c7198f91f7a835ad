"""How likely it is that any deployment at all keeps the limits.

Deployments are correlated: where eight GPUs are too slow, so are four. So the chance is estimated by sampling.
Samples are drawn from the posterior of each hypothesis,

    y = μ_h + 1.5·L_g·z,    L_g·L_gᵀ = posterior covariance,        z standard normal, always the same draws

and a sample counts where at least one deployment keeps the limits: a measured one as it is, any other one after
its probe is paid.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from mlcd.search.arrays import Floats, Mask
from mlcd.search.auto.beliefs import Beliefs
from mlcd.search.auto.outcomes import Choices

_SAMPLES = 256  # of each hypothesis
_WIDER = 1.5  # times the believed spread: beliefs err most about what looks out of reach
_JITTER = 1e-9  # so that rounding leaves the covariance positive


def chance_to_keep_limits(beliefs: Beliefs, choices: Choices) -> float:
    """The chance that some deployment runs and keeps the limits."""
    rows = choices.open | choices.measured
    if not rows.any():
        return 0.0
    costs = choices.costs
    required = np.where(choices.measured, costs.required(), costs.required_after_probe())[rows]
    covariances = beliefs.covariances(choices.rows[rows], choices.rows[rows])
    runs = _uniform(int(rows.sum())) >= choices.failing[rows]
    shares = np.zeros(len(choices.weights))
    for group, covariance in enumerate(covariances):
        shift = _normal(len(covariance)) @ (_WIDER * _root(covariance).T)  # (samples, rows)
        for number in np.flatnonzero(choices.group == group):
            kept: Mask = (choices.means[number, rows] + shift >= required) & runs
            shares[number] = kept.any(axis=1).mean()
    return float(choices.weights @ shares)


def _root(covariance: Floats) -> Floats:
    scale = float(np.diag(covariance).max(initial=1.0))
    jitter = _JITTER * scale * np.eye(len(covariance))
    return np.asarray(np.linalg.cholesky(covariance + jitter), dtype=np.float64)


@cache
def _normal(count: int) -> Floats:
    """Always the same draws, so that the same study gives the same answer."""
    return np.random.default_rng(11).standard_normal((_SAMPLES, count))


@cache
def _uniform(count: int) -> Floats:
    return np.random.default_rng(12).random((_SAMPLES, count))
