"""The value of a probe: the hours or dollars of the whole job that it is expected to save, its price paid.

Glossary (beside that of outcomes; D possible probes):
    B          the value of the best allowed deployment, or of having nothing
    G_j        E max(B − value_j, 0), counted where j keeps the limits: what trying j could save
    gain       B now − E_q (B_q − max_j max(0, (1 − chance of failure)·G_j − price_j)) − lost: (D,)
               over the outcomes q of a probe d: its price is paid, and one more probe follows where that pays
                   w_h|q ∝ w_h·N(y_q; μ_h(d), v(d) + e²)
                   μ_h(j)|q = μ_h(j) + k(j, d)/(v(d) + e²)·(y_q − μ_h(d))
    surprise   G_d with a much wider belief on d, added with the chance that d is an exception to all laws
    lost       by how much the best possible value rises because the probe's time or money is spent: (D,)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from mlcd.search.arrays import Floats, Mask, Rows
from mlcd.search.auto.beliefs import TYPICAL_ERROR
from mlcd.search.auto.costs import RISK, Costs
from mlcd.search.auto.outcomes import (
    MARGIN,
    SURPRISE,
    SURPRISE_CHANCE,
    Choices,
    Evaluation,
    Outcomes,
    before_probe,
    best_possible,
    summarize,
)

_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)  # of the quadrature over outcomes
_DENSITY = np.exp(-0.5 * _NODES**2)
_LEAST_VARIANCE = 1e-8


def gains(choices: Choices, now: Evaluation, covariances: Floats, probes: Rows) -> Floats:
    """What each probe is expected to save, its price paid: (D,). `probes` are places in the choices.

    `covariances` are those of the probes with all choices: (G, D, J).
    """
    found = [_value_after(choices, now, covariances[:, k], int(d)) for k, d in enumerate(probes)]
    foreseen = now.best_value - np.array(found) - _lost_options(choices, probes)
    return foreseen + SURPRISE_CHANCE * _surprises(choices, now, probes)


def _surprises(choices: Choices, now: Evaluation, probes: Rows) -> Floats:
    """What each probe could save if its deployment were an exception to all laws: (D,)."""
    here, costs = before_probe(choices), choices.costs
    wide = replace(
        here,
        sd=np.hypot(here.sd, SURPRISE),
        relative_sd=np.hypot(here.relative_sd, SURPRISE),
        relative_time=here.relative_time * np.exp(SURPRISE**2 / 2.0),
    )
    value, best = wide.value(costs, costs.work), np.array([[now.best_value]])
    saving = _expected_saving(wide, costs, np.ones((1, 1)), value, best)[0]
    found: Floats = ((1.0 - choices.failing) * saving)[probes]
    return found


def _lost_options(choices: Choices, probes: Rows) -> Floats:
    """What is lost where a probe leaves too little time or money for a deployment that just fits: (D,)."""
    if not choices.costs.goal.limited:
        return np.zeros(len(probes))
    tilted = choices.weights * np.exp(choices.log_scale)
    before = tilted @ best_possible(choices.means, choices.costs)
    after = [tilted @ best_possible(choices.means, _paid(choices, int(d))) for d in probes]
    price = tilted.sum() * choices.costs.probe_value()[probes]
    lost: Floats = np.maximum(np.array(after) - before - price, 0.0)
    return lost


def _paid(choices: Choices, probe: int) -> Costs:
    costs = choices.costs
    return costs.after(float(costs.probe_seconds[probe]), float(costs.probe_usd[probe]))


def _value_after(choices: Choices, now: Evaluation, covariance: Floats, probe: int) -> float:
    """The expected value of the best choice after a probe, whether it runs or fails."""
    paid = _paid(choices, probe)
    price = float(choices.weights @ np.exp(choices.log_scale) * choices.costs.probe_value()[probe])
    outcomes, chances, weights = _outcomes(choices, probe)
    spread = choices.variances[:, probe] + TYPICAL_ERROR**2  # (G,)
    slope = (covariance / spread[:, None])[choices.group]  # (H, J)
    surprise = outcomes[:, None] - choices.means[:, probe]  # (Q, H)
    left = np.maximum(choices.variances - covariance**2 / spread[:, None], _LEAST_VARIANCE)[choices.group]
    after = summarize(choices, weights, surprise, slope, left)
    measured = choices.measured.copy()
    measured[probe] = True
    carried = _work_left(choices, probe, outcomes)[:, None]
    ran = float(chances @ _stop_or_probe_again(choices, after, paid, carried, measured, now.nothing + price))
    failing = choices.failing[probe]
    return float((1.0 - failing) * ran + failing * (now.best_value + price))


def _stop_or_probe_again(
    choices: Choices, after: Outcomes, paid: Costs, carried: Floats, measured: Mask, nothing: float
) -> Floats:
    """The better of ending the search and trying one more deployment, after each outcome: (Q,)."""
    value = after.value(paid, paid.work * carried)
    kept = after.chance(paid.required() + np.log(carried)) >= 1.0 - RISK
    best = np.minimum(np.where(kept & measured, value, np.inf).min(axis=1), nothing)
    price = after.scale[:, None] * paid.probe_value()
    gain = (1.0 - choices.failing) * _expected_saving(after, paid, carried, value, best[:, None]) - price
    gain = np.where(choices.open & ~measured, gain, 0.0)
    value_then: Floats = best - np.maximum(gain.max(axis=1), 0.0)
    return value_then


def _expected_saving(after: Outcomes, paid: Costs, carried: Floats, value: Floats, best: Floats) -> Floats:
    """G: what each deployment could save if it were tried next: (Q, J).

    The training alone is log-normal with its mean: z is where it would take all the room that `best` leaves, or
    where it would break a limit, in standard deviations.
    """
    spent = after.scale[:, None] * paid.value(np.full(len(paid.work), -paid.start_seconds))
    room, training = np.maximum(best - spent, 1e-12), np.maximum(value - spent, 1e-12)
    z = (np.log(training / room) - after.relative_sd**2 / 2.0) / after.relative_sd
    if paid.goal.limited:
        needed = paid.required_after_probe() + MARGIN + np.log(carried)
        z = np.maximum(z, (needed - after.mean) / after.sd)
    saving: Floats = room * ndtr(-z) - training * ndtr(-z - after.relative_sd)
    return saving


def _outcomes(choices: Choices, probe: int) -> tuple[Floats, Floats, Floats]:
    """Log throughputs that a probe may show (Q,), how likely they are (Q,), and the weights after them (Q, H)."""
    mean = choices.means[:, probe]
    spread = (choices.variances[:, probe] + TYPICAL_ERROR**2)[choices.group]
    centre = choices.weights @ mean
    width = np.sqrt(choices.weights @ (spread + mean**2) - centre**2)
    outcomes = centre + width * _NODES
    density = choices.weights * np.exp(-0.5 * (outcomes[:, None] - mean) ** 2 / spread) / np.sqrt(spread)
    total = np.maximum(density.sum(axis=1), 1e-300)
    chances = _NODE_WEIGHTS * total / _DENSITY
    return outcomes, chances / chances.sum(), density / total[:, None]


def _work_left(choices: Choices, probe: int, outcomes: Floats) -> Floats:
    """The share of the work that is left when the probe's training is carried on: (Q,)."""
    trained = choices.costs.training_share * choices.costs.probe_seconds[probe] * np.exp(outcomes)
    left: Floats = np.maximum(1.0 - trained / choices.costs.work[probe], 1e-6)
    return left
