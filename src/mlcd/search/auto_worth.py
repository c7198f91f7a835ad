"""What a deployment is expected to come to, and what knowing more is worth, in the goal's own unit.

Glossary (H hypotheses, J deployments in question, Q outcomes of a probe; y = log throughput):
    s_h        1 ÷ the value of the best deployment under h: hours or dollars become shares of what is possible,
               so that a probe is weighed by what the job turns out to cost, not by the worst case
    m, σ       mean and standard deviation of y over all hypotheses: (Q, J)
    m̃, σ̃       the same of y − log s_h: of the time relative to the best possible
    value      S·value of what is spent + a·exp(−m̃ + σ̃²/2), where S = Σ_h w_h·s_h and a = value of work ÷ throughput
    chance     Φ((m − required)/σ): to keep the limits
    B          the value of the best measured deployment whose chance is at least 1 − ε, or of having nothing
    gain       B now − expectation over the outcomes q of a probe d of the better of B_q and going on once more:
                   B_q − max_j [(1 − chance of failure)·G_j − price_j],    G_j = E max(B_q − value_j, 0) if it keeps
               the limits; after the outcome y_q
                   w_h|q ∝ w_h·N(y_q; μ_h(d), v(d) + e²)
                   μ_h(j)|q = μ_h(j) + k(j, d)/(v(d) + e²)·(y_q − μ_h(d))
    doors      by how much the best possible value rises because a probe's time or money is gone
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from mlcd.core.study import Ledger
from mlcd.search.auto_features import Bools, Floats, Rows
from mlcd.search.auto_model import TYPICAL_ERROR, Beliefs
from mlcd.search.auto_stakes import Stakes

RISK = 3e-3  # of breaking a limit with the final choice
_NOTHING = 3.0  # having nothing that keeps the limits is as bad as that many times the surest deployment
_NO_DEPLOYMENT = 100.0  # without limits: having no deployment at all, as many times the best
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_DENSITY = np.exp(-0.5 * _NODES**2)
RISK_SD = float(-ndtri(RISK))  # that risk in standard deviations
MARGIN = RISK_SD * TYPICAL_ERROR  # what the noise of one measurement takes of a limit
DOORS = 1.0
TWO = True


@dataclass(frozen=True)
class Scene:
    """Beliefs and stakes of a few deployments, side by side."""

    rows: Rows  # (J,): their places in the space
    weights: Floats  # (H,)
    group: Rows  # (H,)
    log_scale: Floats  # (H,): log s
    means: Floats  # (H, J)
    variances: Floats  # (G, J)
    stakes: Stakes  # of the J
    failing: Floats  # (J,)
    measured: Bools  # (J,)
    open: Bools  # (J,): may be tried


def scene_of(
    beliefs: Beliefs, stakes: Stakes, failing: Floats, measured: Bools, open_: Bools, rows: Rows
) -> Scene:
    """The scene of these rows of the space."""
    own = stakes.take(rows)
    means = beliefs.means[:, rows]
    return Scene(
        rows=rows,
        weights=beliefs.weights,
        group=beliefs.group,
        log_scale=-np.log(best_possible(means, replace(own, spent=Ledger()))),
        means=means,
        variances=beliefs.variances[:, rows],
        stakes=own,
        failing=failing,
        measured=measured,
        open=open_,
    )


def best_possible(means: Floats, stakes: Stakes) -> Floats:
    """The value of the best deployment that keeps the limits with its margin, under each hypothesis: (H,)."""
    values = stakes.value(stakes.work * np.exp(-means))
    required = stakes.required()
    best = np.where(means >= required + MARGIN, values, np.inf).min(axis=1)
    if not stakes.goal.limited:
        return best
    surest = np.argmax(means - required, axis=1)
    return np.minimum(best, _NOTHING * values[np.arange(len(means)), surest])


@dataclass(frozen=True)
class Outcomes:
    """Beliefs after each outcome of a probe, or after none: (Q, J), and S: (Q,)."""

    mean: Floats  # m
    sd: Floats  # σ
    relative_sd: Floats  # σ̃
    relative_time: Floats  # Σ_h w_h·s_h·exp(−μ_h + v/2): of a unit of work
    scale: Floats  # S

    def chance(self, required: Floats) -> Floats:
        """To keep the limits: (Q, J)."""
        chance: Floats = ndtr((self.mean - required) / self.sd)
        return chance

    def value(self, stakes: Stakes, work: Floats) -> Floats:
        """Of the whole job, as a share of what is possible: (Q, J)."""
        scale = self.scale[:, None]
        return scale * stakes.value(work * self.relative_time / scale)


def _summarize(scene: Scene, weights: Floats, surprise: Floats, slope: Floats, variances: Floats) -> Outcomes:
    """Over hypotheses whose means are means + surprise·slope. weights, surprise: (Q, H); slope, variances: (H, J)."""
    pushed = weights * surprise

    def moments(base: Floats) -> tuple[Floats, Floats]:
        mean = weights @ base + pushed @ slope
        second = weights @ (base**2 + variances) + 2.0 * pushed @ (base * slope)
        second += (pushed * surprise) @ slope**2
        return mean, np.sqrt(np.maximum(second - mean**2, 1e-8))

    mean, sd = moments(scene.means)
    _, relative_sd = moments(scene.means - scene.log_scale[:, None])
    log_times = scene.log_scale[:, None] - scene.means + variances / 2.0  # (H, J)
    times = np.exp(log_times - surprise[:, :, None] * slope)  # (Q, H, J)
    relative_time = (weights[:, None, :] @ times)[:, 0]
    return Outcomes(mean, sd, relative_sd, relative_time, weights @ np.exp(scene.log_scale))


@dataclass(frozen=True)
class Outlook:
    """What to choose if the search ended now."""

    value: Floats  # (J,)
    chance: Floats  # (J,)
    sd: Floats  # (J,)
    allowed: Bools  # (J,)
    nothing: float  # the value of having nothing that keeps the limits

    @property
    def best(self) -> int | None:
        """The place of the best choice; None: nothing may be chosen."""
        return int(np.argmin(np.where(self.allowed, self.value, np.inf))) if self.allowed.any() else None

    @property
    def best_value(self) -> float:
        """Of that choice."""
        return float(np.min(self.value, where=self.allowed, initial=self.nothing))


def look(scene: Scene) -> Outlook:
    """The outlook of a scene."""
    here = _summarize(
        scene,
        scene.weights[None],
        np.zeros((1, len(scene.weights))),
        np.zeros_like(scene.means),
        scene.variances[scene.group],
    )
    chance = here.chance(scene.stakes.required())[0] * (1.0 - scene.failing)
    value = here.value(scene.stakes, scene.stakes.work)[0]
    limited = scene.stakes.goal.limited
    nothing = _NOTHING * float(value[np.argmax(chance)]) if limited else _NO_DEPLOYMENT * float(value.min())
    return Outlook(value, chance, here.sd[0], scene.measured & (chance >= 1.0 - RISK), nothing)


def gains(scene: Scene, now: Outlook, covariances: Floats, probes: Rows) -> Floats:
    """What each probe is expected to save, its price paid: (D,). `probes` are places in the scene.

    `covariances` are those of the probes with the whole scene: (G, D, J).
    """
    found = [_value_after(scene, now, covariances[:, k], int(d)) for k, d in enumerate(probes)]
    return now.best_value - np.array(found) - _doors(scene, probes)


def _doors(scene: Scene, probes: Rows) -> Floats:
    """What the probes close: (D,)."""
    if not scene.stakes.goal.limited or not DOORS:
        return np.zeros(len(probes))
    tilted = scene.weights * np.exp(scene.log_scale)
    before = tilted @ best_possible(scene.means, scene.stakes)
    after = [tilted @ best_possible(scene.means, _paid(scene, int(d))) for d in probes]
    price = tilted.sum() * scene.stakes.probe_value()[probes]
    return DOORS * np.maximum(np.array(after) - before - price, 0.0)


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
    left = np.maximum(scene.variances - covariance**2 / spread[:, None], 1e-8)[scene.group]
    after = _summarize(scene, weights, surprise, slope, left)
    measured = scene.measured.copy()
    measured[probe] = True
    carried = _work_left(scene, probe, outcomes)[:, None]
    nothing = now.nothing + price
    ran = float(chances @ _go_on(scene, after, paid, carried, measured, nothing))
    failing = scene.failing[probe]
    return float((1.0 - failing) * ran + failing * (now.best_value + price))


def _go_on(
    scene: Scene, after: Outcomes, paid: Stakes, carried: Floats, measured: Bools, nothing: float
) -> Floats:
    """The better of ending the search and trying one more deployment, after each outcome: (Q,)."""
    work = paid.work * carried
    value = after.value(paid, work)
    kept = after.chance(paid.required() + np.log(carried)) >= 1.0 - RISK
    best = np.where(kept & measured, value, np.inf).min(axis=1)
    best = np.minimum(best, nothing)  # (Q,)
    if not TWO:
        return best
    price = after.scale[:, None] * paid.probe_value()
    spent = after.scale[:, None] * paid.value(np.full(len(paid.work), -paid.start_seconds))
    room, training = np.maximum(best[:, None] - spent, 1e-12), value - spent
    # The training alone is log-normal with that mean: z is where it would equal the room, in standard deviations.
    z = (np.log(training / room) - after.relative_sd**2 / 2.0) / after.relative_sd
    if paid.goal.limited:
        later = paid.required_after_probe() + MARGIN + np.log(carried)
        z = np.maximum(z, (later - after.mean) / after.sd)
    gain = room * ndtr(-z) - training * ndtr(-z - after.relative_sd)
    gain = np.where(scene.open & ~measured, (1.0 - scene.failing) * gain - price, 0.0)
    return best - np.maximum(gain.max(axis=1), 0.0)


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
    return np.maximum(1.0 - trained / scene.stakes.work[probe], 1e-6)
