"""Beliefs on throughput: rival scaling laws, each corrected by one Gaussian process, weighed by what was seen.

Glossary (N deployments, M measurements, G roughnesses, H hypotheses):
    y            log throughput that was measured, with standard error σ
    hypothesis   a law l at a roughness g, with the posterior of a Gaussian process
                     μ_h(d) = m_l(d) + k_g(d, seen)·(K_g + σ²)⁻¹·(y − m_l(seen))
                     v_g(d) = k_g(d, d) − k_g(d, seen)·(K_g + σ²)⁻¹·k_g(seen, d)
    w_h          its weight ∝ N(y; m_l(seen), K_g + σ²); only the heaviest are kept
    level        before this study's first measurement the job's level is a hypothesis too, in steps around a guess
    pending      deployments that are being tried: they will be known, so v is as if they were, and μ is not touched
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mlcd.search.arrays import Floats, Ints, Rows
from mlcd.search.auto.features import Features, join
from mlcd.search.auto.scaling_laws import Prior, Reference, covariances, law_means, reference_of, variances

TYPICAL_ERROR = 0.02  # of a measurement of log throughput, where it says less or is yet to come
_KEPT = 24  # hypotheses; the rest weighs next to nothing once a few measurements are in
# Log of the job's speed ÷ the guessed one: most jobs are easier than allowed.
_LEVELS = (-1.0, 0.0, 1.0, 2.0, 3.0)
_LAWS_BEFORE_DATA = 16
_LEVEL_SPREAD = 0.3  # within a step
_LEAST_VARIANCE = 1e-8


@dataclass(frozen=True)
class Evidence:
    """What was measured, in this study and in earlier ones, and what is being measured."""

    seen: Features
    log_speed: Floats  # (M,)
    error: Floats  # (M,)
    pending: Features


@dataclass(frozen=True)
class Beliefs:
    """The posterior over a space."""

    space: Features
    reference: Reference
    prior: Prior
    weights: Floats  # (H,)
    group: Ints  # (H,): which roughness
    means: Floats  # μ: (H, N)
    variances: Floats  # v: (G, N)
    cross: Floats  # k(space, known), known being what was seen and what is pending: (G, N, M + P)
    gains: Floats  # (K + σ²)⁻¹·k(known, space): (G, M + P, N)

    def covariances(self, rows: Rows, columns: Rows) -> Floats:
        """Posterior covariances within each roughness: (G, rows, columns)."""
        k = covariances(self.space.take(rows), self.space.take(columns), self.reference, self.prior)
        return k - self.cross[:, rows] @ self.gains[:, :, columns]

    @cached_property
    def mean(self) -> Floats:
        """Expected log throughput over all hypotheses: (N,)."""
        return self.weights @ self.means

    @cached_property
    def sd(self) -> Floats:
        """Its standard deviation: (N,)."""
        shares = np.bincount(self.group, self.weights, minlength=len(self.variances))
        spread = self.weights @ (self.means - self.mean) ** 2
        return np.sqrt(shares @ self.variances + spread)


def believe(space: Features, evidence: Evidence, level: float, prior: Prior) -> Beliefs:
    """The posterior; `level` is a guess of the job's level, used until there is a measurement of this study."""
    reference = reference_of(space, join((evidence.seen, evidence.pending)))
    if not np.any(evidence.seen.study_id == 0):
        prior = replace(prior, level=_LEVEL_SPREAD)
        return _before_data(_posterior(space, evidence, level, reference, prior, _LAWS_BEFORE_DATA))
    return _posterior(space, evidence, level, reference, prior, _KEPT)


def _before_data(beliefs: Beliefs) -> Beliefs:
    """Every hypothesis at every level."""
    steps = np.array(_LEVELS)[:, None, None]
    return replace(
        beliefs,
        weights=np.tile(beliefs.weights, len(_LEVELS)) / len(_LEVELS),
        group=np.tile(beliefs.group, len(_LEVELS)),
        means=(beliefs.means + steps).reshape(-1, beliefs.means.shape[1]),
    )


def _posterior(
    space: Features, evidence: Evidence, level: float, reference: Reference, prior: Prior, kept: int
) -> Beliefs:
    known, count = join((evidence.seen, evidence.pending)), len(evidence.seen)
    inner, cross = (covariances(each, known, reference, prior) for each in (known, space))
    expected = law_means(evidence.seen, reference, prior)
    levels = _levels(evidence, expected, level)
    residuals = evidence.log_speed - expected - levels[evidence.seen.study_id]  # (L, M)
    factors = [_factor(k[:count, :count], evidence.error) for k in inner]
    log_weights = np.array([_log_likelihood(residuals, factor) for factor in factors])
    heaviest, weights = _heaviest(log_weights + np.log(prior.roughness_weights)[:, None], kept)
    group, law = np.divmod(heaviest, prior.laws)
    means = law_means(space, reference, prior, law) + levels[0]
    for number, factor in enumerate(factors):
        own = group == number
        means[own] += cho_solve(factor, residuals[law[own]].T).T @ cross[number, :, :count].T
    gains = _gains(inner, cross, evidence)
    explained = np.einsum("gnm,gmn->gn", cross, gains)
    left = np.maximum(variances(space, reference, prior) - explained, _LEAST_VARIANCE)
    return Beliefs(space, reference, prior, weights, group, means, left, cross, gains)


def _levels(evidence: Evidence, expected: Floats, guess: float) -> Floats:
    """Where the level of each study is centred: on its own measurements, or on the guess without any."""
    ids = evidence.seen.study_id
    gaps = evidence.log_speed - expected.mean(axis=0)
    levels = np.full(int(ids.max(initial=0)) + 1, guess)
    for study in np.unique(ids):
        levels[study] = gaps[ids == study].mean()
    return levels


def _factor(k: Floats, error: Floats) -> tuple[Floats, bool]:
    """The Cholesky factor of K + σ²."""
    factor: tuple[Floats, bool] = cho_factor(k + np.diag(error**2), lower=True)
    return factor


def _log_likelihood(residuals: Floats, factor: tuple[Floats, bool]) -> Floats:
    """log N(residuals; 0, K + σ²) of each law, up to a constant: (L,)."""
    fit: Floats = -0.5 * np.einsum("lm,ml->l", residuals, cho_solve(factor, residuals.T))
    likelihood: Floats = fit - np.log(np.diag(factor[0])).sum()
    return likelihood


def _heaviest(log_weights: Floats, kept: int) -> tuple[Rows, Floats]:
    """Which hypotheses to keep, as places in the flattened table, and their weights."""
    flat = log_weights.ravel()
    order = np.argsort(-flat, kind="stable")[:kept]
    weights = np.exp(flat[order] - flat[order[0]])
    return order, weights / weights.sum()


def _gains(inner: Floats, cross: Floats, evidence: Evidence) -> Floats:
    """What each deployment learns from what is known, as if the pending ones were: (G, M + P, N)."""
    error = np.concatenate((evidence.error, np.full(len(evidence.pending), TYPICAL_ERROR)))
    pairs = zip(inner, cross, strict=True)
    return np.array([cho_solve(_factor(k, error), outer.T) for k, outer in pairs])
