"""What deployments are expected to come to, side by side, and what to choose if the search ended now.

Glossary (H hypotheses, J deployments in question, Q outcomes of a probe; y = log throughput):
    s_h        1 ÷ the value of the best deployment under h: hours or dollars become shares of what is possible,
               so that a probe is weighed by what the job turns out to cost, not by the worst case
    m, σ       mean and standard deviation of y over all hypotheses: (Q, J)
    σ̃          standard deviation of y − log s_h: of the time relative to the best possible: (Q, J)
    value      Σ_h w_h·s_h·value of the whole job, the training taking work·exp(−μ_h + v/2): (Q, J)
    chance     Φ((m − required)/σ)·(1 − chance of failure): (Q, J)
    allowed    measured, and chance ≥ 1 − ε: what may be chosen
    nothing    the value of having nothing that is allowed
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from mlcd.core.study import Ledger
from mlcd.search.auto_features import Bools, Floats, Ints, Rows
from mlcd.search.auto_model import TYPICAL_ERROR, Beliefs
from mlcd.search.auto_stakes import Stakes

RISK = 3e-3  # ε: of breaking a limit with the final choice
RISK_SD = float(-ndtri(RISK))  # that risk in standard deviations
MARGIN = RISK_SD * TYPICAL_ERROR  # what the noise of one measurement takes of a limit
SURPRISE = 0.7  # standard deviation of log throughput beyond all beliefs …
SURPRISE_CHANCE = 0.02  # … of the few deployments that are exceptions to every law
_NOTHING = 3.0  # with limits: as bad as that many times the surest deployment
_NO_DEPLOYMENT = 100.0  # without limits: as bad as that many times the best deployment


@dataclass(frozen=True)
class Scene:
    """Beliefs and stakes of a few deployments, side by side."""

    rows: Rows  # (J,): their places in the space
    weights: Floats  # (H,)
    group: Ints  # (H,)
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
    best: Floats = np.where(means >= required + MARGIN, values, np.inf).min(axis=1)
    if not stakes.goal.limited:
        return best
    surest = np.argmax(means - required, axis=1)
    bounded: Floats = np.minimum(best, _NOTHING * values[np.arange(len(means)), surest])
    return bounded


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


def summarize(scene: Scene, weights: Floats, surprise: Floats, slope: Floats, variances: Floats) -> Outcomes:
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


def believed(scene: Scene) -> Outcomes:
    """What is believed now, before any probe: one outcome."""
    hypotheses, deployments = scene.means.shape
    return summarize(
        scene,
        weights=scene.weights[None],
        surprise=np.zeros((1, hypotheses)),
        slope=np.zeros((hypotheses, deployments)),
        variances=scene.variances[scene.group],
    )


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
        return self.nothing if self.best is None else min(self.nothing, float(self.value[self.best]))


def look(scene: Scene) -> Outlook:
    """The outlook of a scene."""
    here = believed(scene)
    chance = here.chance(scene.stakes.required())[0] * (1.0 - scene.failing)
    value = here.value(scene.stakes, scene.stakes.work)[0]
    allowed = scene.measured & (chance >= 1.0 - RISK) if scene.stakes.goal.limited else scene.measured
    return Outlook(value, chance, here.sd[0], allowed, _value_of_nothing(scene, value, chance))


def _value_of_nothing(scene: Scene, value: Floats, chance: Floats) -> float:
    runs = scene.open | scene.measured
    if not scene.stakes.goal.limited or not runs.any():
        return _NO_DEPLOYMENT * float(value.min())
    return _NOTHING * float(value[np.argmax(np.where(runs, chance, -1.0))])
