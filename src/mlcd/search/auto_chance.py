"""How likely it is that any deployment at all keeps the limits.

Deployments stand and fall together: where eight GPUs are too slow, so are four. So the chance is not a sum over
deployments but a share of worlds. Of each hypothesis worlds are drawn from its posterior,

    y = μ_h + 1.5·L_g·z,    L_g·L_gᵀ = posterior covariance,        z standard normal, always the same draws

and a world counts where at least one deployment keeps the limits: one that was measured as it is, one that was not
once its probe is paid.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from mlcd.search.auto_features import Bools, Floats
from mlcd.search.auto_model import Beliefs
from mlcd.search.auto_scene import Scene

_WORLDS = 256  # of each hypothesis
_WIDER = 1.5  # times the spread that is believed: what looks out of reach is where beliefs err most
_JITTER = 1e-9  # so that rounding leaves the covariance positive


def chance_of_any(beliefs: Beliefs, scene: Scene) -> float:
    """That some deployment of the scene runs and keeps the limits."""
    rows = scene.open | scene.measured
    if not rows.any():
        return 0.0
    stakes = scene.stakes
    required = np.where(scene.measured, stakes.required(), stakes.required_after_probe())[rows]
    covariances = beliefs.covariances(scene.rows[rows], scene.rows[rows])
    runs = _uniform(int(rows.sum())) >= scene.failing[rows]
    shares = np.zeros(len(scene.weights))
    for group, covariance in enumerate(covariances):
        shift = _normal(len(covariance)) @ (_WIDER * _root(covariance).T)  # (worlds, rows)
        for number in np.flatnonzero(scene.group == group):
            kept: Bools = (scene.means[number, rows] + shift >= required) & runs
            shares[number] = kept.any(axis=1).mean()
    return float(scene.weights @ shares)


def _root(covariance: Floats) -> Floats:
    scale = float(np.diag(covariance).max(initial=1.0))
    jitter = _JITTER * scale * np.eye(len(covariance))
    return np.asarray(np.linalg.cholesky(covariance + jitter), dtype=np.float64)


@cache
def _normal(count: int) -> Floats:
    """The same draws for every question, so that the same study gives the same answer."""
    return np.random.default_rng(11).standard_normal((_WORLDS, count))


@cache
def _uniform(count: int) -> Floats:
    return np.random.default_rng(12).random((_WORLDS, count))
