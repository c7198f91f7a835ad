"""What knowing more is worth, in the goal's own unit: hours or dollars of the whole job saved by a probe.

Glossary (beside that of auto_scene; D probes in question):
    B          the value of the best allowed deployment, or of having nothing
    G_j        E max(B − value_j, 0), counted where j keeps the limits: what trying j could save
    gain       B now − E_q (B_q − max_j max(0, (1 − chance of failure)·G_j − price_j)) − doors: (D,)
               over the outcomes q of a probe d, that is after it and, if that pays, one more; with its price paid
                   w_h|q ∝ w_h·N(y_q; μ_h(d), v(d) + e²)
                   μ_h(j)|q = μ_h(j) + k(j, d)/(v(d) + e²)·(y_q − μ_h(d))
    surprise   G_d once more, as if nothing were known of d but roughly: added with the chance of an exception
    doors      by how much the best possible value rises because a probe's time or money is gone: (D,)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from mlcd.search.auto_features import Bools, Floats, Rows
from mlcd.search.auto_model import TYPICAL_ERROR
from mlcd.search.auto_scene import (
    MARGIN,
    RISK,
    SURPRISE,
    SURPRISE_CHANCE,
    Outcomes,
    Outlook,
    Scene,
    believed,
    best_possible,
    summarize,
)
from mlcd.search.auto_stakes import Stakes

_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)  # of the quadrature over outcomes
_DENSITY = np.exp(-0.5 * _NODES**2)
_LEAST_VARIANCE = 1e-8


def gains(scene: Scene, now: Outlook, covariances: Floats, probes: Rows) -> Floats:
    """What each probe is expected to save, its price paid: (D,). `probes` are places in the scene.

    `covariances` are those of the probes with the whole scene: (G, D, J).
    """
    found = [_value_after(scene, now, covariances[:, k], int(d)) for k, d in enumerate(probes)]
    foreseen = now.best_value - np.array(found) - _doors(scene, probes)
    return foreseen + SURPRISE_CHANCE * _surprises(scene, now, probes)


def _surprises(scene: Scene, now: Outlook, probes: Rows) -> Floats:
    """What each probe could save, were its deployment an exception to all laws: (D,)."""
    here, stakes = believed(scene), scene.stakes
    wide = replace(
        here,
        sd=np.hypot(here.sd, SURPRISE),
        relative_sd=np.hypot(here.relative_sd, SURPRISE),
        relative_time=here.relative_time * np.exp(SURPRISE**2 / 2.0),
    )
    value, best = wide.value(stakes, stakes.work), np.array([[now.best_value]])
    hope = _hope(wide, stakes, np.ones((1, 1)), value, best)[0]
    found: Floats = ((1.0 - scene.failing) * hope)[probes]
    return found


def _doors(scene: Scene, probes: Rows) -> Floats:
    """What the probes close: (D,)."""
    if not scene.stakes.goal.limited:
        return np.zeros(len(probes))
    tilted = scene.weights * np.exp(scene.log_scale)
    before = tilted @ best_possible(scene.means, scene.stakes)
    after = [tilted @ best_possible(scene.means, _paid(scene, int(d))) for d in probes]
    price = tilted.sum() * scene.stakes.probe_value()[probes]
    closed: Floats = np.maximum(np.array(after) - before - price, 0.0)
    return closed


def _paid(scene: Scene, probe: int) -> Stakes:
    stakes = scene.stakes
    return stakes.after(float(stakes.probe_seconds[probe]), float(stakes.probe_usd[probe]))


def _value_after(scene: Scene, now: Outlook, covariance: Floats, probe: int) -> float:
    """The expected value of the best choice after a probe, whether it runs or fails."""
    paid = _paid(scene, probe)
    price = float(scene.weights @ np.exp(scene.log_scale) * scene.stakes.probe_value()[probe])
    outcomes, chances, weights = _outcomes(scene, probe)
    spread = scene.variances[:, probe] + TYPICAL_ERROR**2  # (G,)
    slope = (covariance / spread[:, None])[scene.group]  # (H, J)
    surprise = outcomes[:, None] - scene.means[:, probe]  # (Q, H)
    left = np.maximum(scene.variances - covariance**2 / spread[:, None], _LEAST_VARIANCE)[scene.group]
    after = summarize(scene, weights, surprise, slope, left)
    measured = scene.measured.copy()
    measured[probe] = True
    carried = _work_left(scene, probe, outcomes)[:, None]
    ran = float(chances @ _go_on(scene, after, paid, carried, measured, now.nothing + price))
    failing = scene.failing[probe]
    return float((1.0 - failing) * ran + failing * (now.best_value + price))


def _go_on(
    scene: Scene, after: Outcomes, paid: Stakes, carried: Floats, measured: Bools, nothing: float
) -> Floats:
    """The better of ending the search and trying one more deployment, after each outcome: (Q,)."""
    value = after.value(paid, paid.work * carried)
    kept = after.chance(paid.required() + np.log(carried)) >= 1.0 - RISK
    best = np.minimum(np.where(kept & measured, value, np.inf).min(axis=1), nothing)
    price = after.scale[:, None] * paid.probe_value()
    gain = (1.0 - scene.failing) * _hope(after, paid, carried, value, best[:, None]) - price
    gain = np.where(scene.open & ~measured, gain, 0.0)
    value_then: Floats = best - np.maximum(gain.max(axis=1), 0.0)
    return value_then


def _hope(after: Outcomes, paid: Stakes, carried: Floats, value: Floats, best: Floats) -> Floats:
    """G: what each deployment could save, were it tried next: (Q, J).

    The training alone is log-normal with its mean: z is where it would take all the room that `best` leaves, or
    where it would break a limit, in standard deviations.
    """
    spent = after.scale[:, None] * paid.value(np.full(len(paid.work), -paid.start_seconds))
    room, training = np.maximum(best - spent, 1e-12), np.maximum(value - spent, 1e-12)
    z = (np.log(training / room) - after.relative_sd**2 / 2.0) / after.relative_sd
    if paid.goal.limited:
        needed = paid.required_after_probe() + MARGIN + np.log(carried)
        z = np.maximum(z, (needed - after.mean) / after.sd)
    hope: Floats = room * ndtr(-z) - training * ndtr(-z - after.relative_sd)
    return hope


def _outcomes(scene: Scene, probe: int) -> tuple[Floats, Floats, Floats]:
    """Log throughputs that a probe may show (Q,), how likely they are (Q,), and the weights after them (Q, H)."""
    mean = scene.means[:, probe]
    spread = (scene.variances[:, probe] + TYPICAL_ERROR**2)[scene.group]
    centre = scene.weights @ mean
    width = np.sqrt(scene.weights @ (spread + mean**2) - centre**2)
    outcomes = centre + width * _NODES
    density = scene.weights * np.exp(-0.5 * (outcomes[:, None] - mean) ** 2 / spread) / np.sqrt(spread)
    total = np.maximum(density.sum(axis=1), 1e-300)
    chances = _NODE_WEIGHTS * total / _DENSITY
    return outcomes, chances / chances.sum(), density / total[:, None]


def _work_left(scene: Scene, probe: int, outcomes: Floats) -> Floats:
    """The share of the work that is left when the probe's training is carried on: (Q,)."""
    trained = scene.stakes.training_share * scene.stakes.probe_seconds[probe] * np.exp(outcomes)
    left: Floats = np.maximum(1.0 - trained / scene.stakes.work[probe], 1e-6)
    return left
