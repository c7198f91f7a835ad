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

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mlcd.search.auto_features import Features, Floats, Ints, Rows, join
from mlcd.search.auto_laws import Prior, Reference, covariance, law_means, reference_of, variance

TYPICAL_ERROR = 0.02  # of a measurement of log throughput, where it says less or is yet to come
_KEPT = 24  # hypotheses; the rest weighs next to nothing once a few measurements are in
_LEVELS = (
    -1.0,
    0.0,
    1.0,
    2.0,
    3.0,
)  # log of the job's speed ÷ the guessed one: most jobs are easier than allowed
_LAWS_BEFORE_DATA = 16
_LEVEL_SPREAD = 0.3  # within a step
_LEAST_VARIANCE = 1e-8


@dataclass(frozen=True)
class Evidence:
    """What was measured, here and in earlier studies, and what soon will be."""

    seen: Features
    log_speed: Floats  # (M,)
    error: Floats  # (M,)
    pending: Features


@dataclass(frozen=True)
class _Correction:
    """The Gaussian process at one roughness: (M+P, ·) with what is pending, for variances."""

    prior: Prior
    roughness: float
    covariances: Floats  # k(space, known): (N, M+P)
    gains: Floats  # (K + σ²)⁻¹·k(known, space): (M+P, N)


@dataclass(frozen=True)
class Beliefs:
    """The posterior over a space."""

    space: Features
    reference: Reference
    weights: Floats  # (H,)
    group: Ints  # (H,): which roughness
    means: Floats  # (H, N)
    variances: Floats  # (G, N)
    corrections: tuple[_Correction, ...]

    def covariance(self, rows: Rows, columns: Rows) -> Floats:
        """Posterior covariances within each roughness: (G, rows, columns)."""
        a, b = self.space.take(rows), self.space.take(columns)
        return np.array(
            [
                covariance(a, b, each.roughness, self.reference, each.prior)
                - each.covariances[rows] @ each.gains[:, columns]
                for each in self.corrections
            ]
        )

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of log throughput over all hypotheses: (N,), (N,)."""
        mean = self.weights @ self.means
        second = self.weights @ (self.variances[self.group] + self.means**2)
        return mean, np.sqrt(np.maximum(second - mean**2, _LEAST_VARIANCE))


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
    expected = law_means(evidence.seen, reference, prior)
    levels = _levels(evidence, expected, level)
    residuals = evidence.log_speed - expected - levels[evidence.seen.study_id]
    factors = [_factor(evidence, roughness, reference, prior) for roughness in prior.roughnesses]
    log_weights = np.array([_log_likelihood(residuals, factor) for factor in factors])  # (G, L)
    heaviest, weights = _heaviest(log_weights + np.log(prior.roughness_weights)[:, None], kept)
    group, law = np.divmod(heaviest, prior.laws)
    means = law_means(space, reference, prior, law) + levels[0]
    corrections = tuple(_correction(space, evidence, r, reference, prior) for r in prior.roughnesses)
    for number, roughness in enumerate(prior.roughnesses):
        own = group == number
        cross = covariance(space, evidence.seen, roughness, reference, prior)
        means[own] += cho_solve(factors[number], residuals[law[own]].T).T @ cross.T
    variances = np.array([_variance(space, each, reference) for each in corrections])
    return Beliefs(space, reference, weights, group, means, variances, corrections)


def _levels(evidence: Evidence, expected: Floats, guess: float) -> Floats:
    """Where the level of each study is centred: on its own measurements, or on the guess without any."""
    ids = evidence.seen.study_id
    gaps = evidence.log_speed - expected.mean(axis=0)
    levels = np.full(int(ids.max(initial=0)) + 1, guess)
    for study in np.unique(ids):
        levels[study] = gaps[ids == study].mean()
    return levels


def _factor(evidence: Evidence, roughness: float, reference: Reference, prior: Prior) -> tuple[Floats, bool]:
    """The Cholesky factor of K + σ²."""
    k = covariance(evidence.seen, evidence.seen, roughness, reference, prior)
    factor: tuple[Floats, bool] = cho_factor(k + np.diag(evidence.error**2), lower=True)
    return factor


def _log_likelihood(residuals: Floats, factor: tuple[Floats, bool]) -> Floats:
    """log N(residuals; 0, K + σ²) of each law, up to a constant: (L,)."""
    fit: Floats = -0.5 * np.einsum("lm,ml->l", residuals, cho_solve(factor, residuals.T))
    return fit - np.log(np.diag(factor[0])).sum()


def _heaviest(log_weights: Floats, kept: int) -> tuple[Rows, Floats]:
    """Which hypotheses to keep, as places in the flattened table, and their weights."""
    flat = log_weights.ravel()
    order = np.argsort(-flat, kind="stable")[:kept]
    weights = np.exp(flat[order] - flat[order[0]])
    return order, weights / weights.sum()


def _correction(
    space: Features, evidence: Evidence, roughness: float, reference: Reference, prior: Prior
) -> _Correction:
    known = join((evidence.seen, evidence.pending))
    noise = np.concatenate((evidence.error, np.full(len(evidence.pending), TYPICAL_ERROR)))
    cross = covariance(space, known, roughness, reference, prior)
    factor = cho_factor(covariance(known, known, roughness, reference, prior) + np.diag(noise**2), lower=True)
    return _Correction(prior, roughness, cross, cho_solve(factor, cross.T))


def _variance(space: Features, correction: _Correction, reference: Reference) -> Floats:
    k = variance(space, correction.roughness, reference, correction.prior)
    explained = np.einsum("nm,mn->n", correction.covariances, correction.gains)
    return np.maximum(k - explained, _LEAST_VARIANCE)
