"""A Gaussian process over deployments: what the tried ones say about all others.

Symbols and shapes, as used throughout this file:

    n   observations                       m   points to predict
    d   features, centred, of unit spread  X   (n, d) features of the observations
    c   (n,) category of each observation  y   (n,) values, here the logarithm of a speed
    v   (n,) known variance of each value (its measurement error)

    r²(a, b)  = Σ_j (a_j − b_j)² / ℓ_j²  +  [c_a ≠ c_b] / ℓ_c²       squared distance, a length ℓ for each feature
                                                                     and one for being of another category
    k(a, b)   = s² (1 + √5 r + 5 r²/3) exp(−√5 r)                    Matérn 5/2 covariance
    K         = k(X, X) + diag(v) + τ² I                             τ²: noise beyond the known
    θ         = (log ℓ_1 … log ℓ_d, log ℓ_c, log s², log τ²)         found by maximum a posteriori
    L         Cholesky factor of K;  R = L⁻¹;  K⁻¹ = Rᵀ R;  α = K⁻¹ y

    posterior at x:   μ = k(x, X) α,   σ² = s² − ‖R k(X, x)‖²        of the function, without noise

Values are centred and scaled before fitting, so that the priors on θ hold for speeds of any size. The priors are
weak normals on each θ: with three observations they decide, with twenty they hardly matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from mlcd.search.arrays import Floats, Rows

_SQRT5 = 5.0**0.5
_MOST_STEPS = 40  # of the optimiser
_GRADIENT_TOLERANCE = 1e-2  # in nats: nobody sees the difference
_SPREAD_WEIGHT = 3.0  # how many observations the expected spread of the values is worth

# Products up to this size are done by BLAS without threads. Larger ones would wait for a second core, which on a
# busy machine takes a hundred times longer than the product itself.
_PRODUCT_WITHOUT_THREADS = 262_144

# Priors: mean and standard deviation of each kind of θ, for values and features of unit spread.
_LENGTH_PRIOR = (np.log(1.5), 0.8)
_SCALE_PRIOR = (np.log(1.0), 0.7)
_NOISE_PRIOR = (np.log(1e-3), 1.5)
_BOUNDS_LENGTH = (np.log(0.1), np.log(30.0))
_BOUNDS_SCALE = (np.log(0.05), np.log(30.0))
_BOUNDS_NOISE = (np.log(1e-6), np.log(0.5))


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A fitted process, ready to predict."""

    features: Floats  # X (n, d)
    category: Rows  # c (n,)
    theta: Floats  # (d + 3,)
    root: Floats  # R (n, n)
    weights: Floats  # α (n,)
    centre: float  # of the values
    scale: float  # of the values

    def predict(self, features: Floats, category: Rows) -> tuple[Floats, Floats]:
        """Mean and standard deviation at each point (m,), in the unit of the values."""
        mean = np.empty(len(features))
        variance = np.empty(len(features))
        step = max(32, _PRODUCT_WITHOUT_THREADS // (len(self.weights) * max(self.features.shape)))
        for start in range(0, len(features), step):
            rows = slice(start, start + step)
            mean[rows], variance[rows] = self._predict(features[rows], category[rows])
        return self.centre + self.scale * mean, self.scale * np.sqrt(variance)

    def _predict(self, features: Floats, category: Rows) -> tuple[Floats, Floats]:
        lengths, scale = np.exp(self.theta[:-2]), float(np.exp(self.theta[-2]))
        squared = _squared_distance(features, category, self.features, self.category, lengths)
        cross = scale * _matern52(squared)  # (m, n)
        explained = cross @ self.root.T  # (m, n)
        variance = scale - np.einsum("mn,mn->m", explained, explained)
        return cross @ self.weights, np.maximum(variance, 1e-12 * scale)


def fit(features: Floats, category: Rows, values: Floats, variance: Floats) -> GaussianProcess:
    """The process that explains the values best; at least one observation is needed."""
    centre, scale = _centre_and_scale(values)
    standard, known = (values - centre) / scale, variance / scale**2
    apart = _squared_parts(features, category)
    theta = _most_likely(apart, standard, known)
    root, _ = _inverse_root(_covariance(apart, theta) + np.diag(known + np.exp(theta[-1])))
    return GaussianProcess(features, category, theta, root, root.T @ (root @ standard), centre, scale)


def _centre_and_scale(values: Floats) -> tuple[float, float]:
    """Mean and spread of the values, the spread shrunk towards one.

    Logarithms of speeds spread by about one (a factor of e). Two values that happen to be alike must not make
    the process believe that everything is.
    """
    squares = float(((values - values.mean()) ** 2).sum())
    return float(values.mean()), ((squares + _SPREAD_WEIGHT) / (len(values) + _SPREAD_WEIGHT)) ** 0.5


def _squared_parts(features: Floats, category: Rows) -> Floats:
    """Each feature's share of r² before its length (d + 1, n, n), the category's last."""
    difference = features.T[:, :, None] - features.T[:, None, :]
    other = (category[:, None] != category[None, :]).astype(float)
    return np.concatenate([difference**2, other[None]])


def _most_likely(apart: Floats, values: Floats, known: Floats) -> Floats:
    """θ of the highest posterior density; the prior's mean where the optimiser finds none better.

    Plain BFGS: SciPy's L-BFGS-B calls threaded BLAS in every step and waits for it.
    """
    count = len(apart)  # d + 1
    mean = np.array([_LENGTH_PRIOR[0]] * count + [_SCALE_PRIOR[0], _NOISE_PRIOR[0]])
    spread = np.array([_LENGTH_PRIOR[1]] * count + [_SCALE_PRIOR[1], _NOISE_PRIOR[1]])
    from scipy.optimize import minimize  # half a second: most commands fit nothing

    found = minimize(
        _negative_log_posterior,
        mean,
        args=(apart, values, known, mean, spread),
        jac=True,
        method="BFGS",
        options={"maxiter": _MOST_STEPS, "gtol": _GRADIENT_TOLERANCE},
    )
    return _within_bounds(found.x) if np.all(np.isfinite(found.x)) else mean


def _within_bounds(theta: Floats) -> Floats:
    count = len(theta) - 2
    bounds: Floats = np.array([_BOUNDS_LENGTH] * count + [_BOUNDS_SCALE, _BOUNDS_NOISE])
    return np.clip(theta, bounds[:, 0], bounds[:, 1])


def _negative_log_posterior(
    theta: Floats, apart: Floats, values: Floats, known: Floats, mean: Floats, spread: Floats
) -> tuple[float, Floats]:
    """−log p(y | θ) − log p(θ) and its gradient.

    With A = α αᵀ − K⁻¹ the gradient of log p(y | θ) in θ_i is ½ Σ (A ∘ ∂K/∂θ_i). Beyond its bounds θ changes the
    prior alone, which leads it back.
    """
    bounded = _within_bounds(theta)
    lengths, scale, noise = np.exp(bounded[:-2]), np.exp(bounded[-2]), np.exp(bounded[-1])
    shares = apart / lengths[:, None, None] ** 2  # (d + 1, n, n)
    scaled = _SQRT5 * np.sqrt(shares.sum(axis=0))  # √5 r
    decay = np.exp(-scaled)
    smooth = scale * (1.0 + scaled + scaled**2 / 3.0) * decay
    half, log_determinant = _inverse_root(smooth + np.diag(known + noise))
    inverse = half.T @ half
    weights = inverse @ values
    outer = np.outer(weights, weights) - inverse
    slope = (5.0 / 3.0) * scale * (1.0 + scaled) * decay  # ∂k/∂log ℓ_j = slope · share_j
    gradient = np.empty_like(theta)
    gradient[:-2] = np.einsum("ab,jab->j", outer * slope, shares)
    gradient[-2] = np.sum(outer * smooth)
    gradient[-1] = noise * np.trace(outer)
    gradient[theta != bounded] = 0.0
    away = (theta - mean) / spread
    loss = 0.5 * values @ weights + 0.5 * log_determinant + 0.5 * away @ away
    return float(loss), away / spread - 0.5 * gradient


def _covariance(apart: Floats, theta: Floats) -> Floats:
    shares = apart / np.exp(theta[:-2])[:, None, None] ** 2
    return float(np.exp(theta[-2])) * _matern52(shares.sum(axis=0))


def _matern52(squared: Floats) -> Floats:
    """(1 + √5 r + 5 r²/3) exp(−√5 r) of r², its values overwritten."""
    np.maximum(squared, 0.0, out=squared)
    scaled = np.sqrt(squared, out=squared)
    scaled *= _SQRT5
    return np.asarray((1.0 + scaled + scaled * scaled / 3.0) * np.exp(-scaled))


def _squared_distance(
    left: Floats, left_category: Rows, right: Floats, right_category: Rows, lengths: Floats
) -> Floats:
    """r² between every point (m) and every observation (n), (m, n)."""
    a, b = left / lengths[:-1], right / lengths[:-1]
    squared: Floats = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    squared += (left_category[:, None] != right_category[None, :]) * (1.0 / lengths[-1] ** 2)
    return squared


def _inverse_root(matrix: Floats) -> tuple[Floats, float]:
    """R with Rᵀ R = matrix⁻¹, and log |matrix|; what rounding made indefinite gets the least jitter that helps."""
    for jitter in (0.0, 1e-8, 1e-6, 1e-4, 1e-2):
        factor, failed = dpotrf(matrix + jitter * np.eye(len(matrix)), lower=1, clean=1)
        if failed == 0:
            root, _ = dtrtri(factor, lower=1)
            return np.asarray(root), 2.0 * float(np.log(np.diag(factor)).sum())
    raise ValueError("the covariance of the observations is not positive definite")
