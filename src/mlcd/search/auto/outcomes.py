"""What the shortlisted deployments are expected to come to, now or after a probe, and which one is best now.

Glossary (H hypotheses, J shortlisted deployments, Q outcomes of a probe; y = log throughput):
    s_h        1 ÷ the value of the best deployment under h: hours or dollars become multiples of the best possible,
               so that a probe is weighed by what the job turns out to cost, not by the worst case
    m, σ       mean and standard deviation of y over all hypotheses: (Q, J)
    σ̃          standard deviation of y − log s_h, that is of the time relative to the best possible: (Q, J)
    value      Σ_h w_h·s_h·value of the whole job, the training taking work·exp(−μ_h + v/2): (Q, J)
    chance     Φ((m − required)/σ)·(1 − chance of failure): (Q, J)
    allowed    measured, and chance ≥ 1 − ε: what may be chosen
    nothing    the value where nothing is allowed
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from mlcd.core.study import Ledger
from mlcd.search.arrays import Floats, Ints, Mask, Rows
from mlcd.search.auto.beliefs import TYPICAL_ERROR
from mlcd.search.auto.context import SearchContext
from mlcd.search.auto.costs import RISK, RISK_SD, Costs
from mlcd.search.auto.failures import raise_for_exclusions

MARGIN = RISK_SD * TYPICAL_ERROR  # kept from a limit for the noise of one measurement
SURPRISE_CHANCE = 0.02  # that a deployment is an exception to every law …
SURPRISE = 0.7  # … and by how much: standard deviation of log throughput beyond all beliefs
NOTHING = 3.0  # with limits, having nothing counts as this many times the likeliest deployment
_NO_DEPLOYMENT = 100.0  # without limits: as this many times the best deployment


@dataclass(frozen=True)
class Choices:
    """Beliefs and costs of the shortlisted deployments."""

    rows: Rows  # (J,): their places in the space
    weights: Floats  # (H,)
    group: Ints  # (H,)
    log_scale: Floats  # (H,): log s
    means: Floats  # (H, J)
    variances: Floats  # (G, J)
    costs: Costs  # of the J
    failing: Floats  # (J,)
    measured: Mask  # (J,)
    open: Mask  # (J,): may be tried


def choices_of(context: SearchContext, rows: Rows) -> Choices:
    """These rows of the space."""
    beliefs, own = context.beliefs, context.costs.take(rows)
    means = beliefs.means[:, rows]
    return Choices(
        rows=rows,
        weights=beliefs.weights,
        group=beliefs.group,
        log_scale=-np.log(best_possible(means, replace(own, spent=Ledger()))),
        means=means,
        variances=beliefs.variances[:, rows],
        costs=own,
        failing=raise_for_exclusions(context.study, rows, context.failing[rows]),
        measured=context.measured[rows],
        open=context.open[rows],
    )


def best_possible(means: Floats, costs: Costs) -> Floats:
    """The value of the best deployment that keeps the limits with its margin, under each hypothesis: (H,)."""
    values = costs.value(costs.work * np.exp(-means))
    required = costs.required()
    best: Floats = np.where(means >= required + MARGIN, values, np.inf).min(axis=1)
    if not costs.goal.limited:
        return best
    surest = np.argmax(means - required, axis=1)
    bounded: Floats = np.minimum(best, NOTHING * values[np.arange(len(means)), surest])
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
        """The chance to keep the limits: (Q, J)."""
        chance: Floats = ndtr((self.mean - required) / self.sd)
        return chance

    def value(self, costs: Costs, work: Floats) -> Floats:
        """Value of the whole job, as a multiple of the best possible: (Q, J)."""
        scale = self.scale[:, None]
        return scale * costs.value(work * self.relative_time / scale)


def summarize(choices: Choices, weights: Floats, surprise: Floats, slope: Floats, variances: Floats) -> Outcomes:
    """The outcomes over hypotheses with the means `means + surprise·slope`.

    weights, surprise: (Q, H); slope, variances: (H, J).
    """
    pushed = weights * surprise

    def moments(base: Floats) -> tuple[Floats, Floats]:
        mean = weights @ base + pushed @ slope
        second = weights @ (base**2 + variances) + 2.0 * pushed @ (base * slope)
        second += (pushed * surprise) @ slope**2
        return mean, np.sqrt(np.maximum(second - mean**2, 1e-8))

    mean, sd = moments(choices.means)
    _, relative_sd = moments(choices.means - choices.log_scale[:, None])
    log_times = choices.log_scale[:, None] - choices.means + variances / 2.0  # (H, J)
    times = np.exp(log_times - surprise[:, :, None] * slope)  # (Q, H, J)
    relative_time = (weights[:, None, :] @ times)[:, 0]
    return Outcomes(mean, sd, relative_sd, relative_time, weights @ np.exp(choices.log_scale))


def before_probe(choices: Choices) -> Outcomes:
    """What is believed now: a single outcome."""
    hypotheses, deployments = choices.means.shape
    return summarize(
        choices,
        weights=choices.weights[None],
        surprise=np.zeros((1, hypotheses)),
        slope=np.zeros((hypotheses, deployments)),
        variances=choices.variances[choices.group],
    )


@dataclass(frozen=True)
class Evaluation:
    """What to choose if the search ended now."""

    value: Floats  # (J,)
    chance: Floats  # (J,)
    sd: Floats  # (J,)
    allowed: Mask  # (J,)
    nothing: float  # the value of having nothing that keeps the limits

    @property
    def best(self) -> int | None:
        """The place of the best choice; None: nothing may be chosen."""
        return int(np.argmin(np.where(self.allowed, self.value, np.inf))) if self.allowed.any() else None

    @property
    def best_value(self) -> float:
        """The value of that choice."""
        return self.nothing if self.best is None else min(self.nothing, float(self.value[self.best]))


def evaluate(choices: Choices) -> Evaluation:
    """Value and chance of each choice, as believed now."""
    here = before_probe(choices)
    chance = here.chance(choices.costs.required())[0] * (1.0 - choices.failing)
    value = here.value(choices.costs, choices.costs.work)[0]
    allowed = choices.measured & (chance >= 1.0 - RISK) if choices.costs.goal.limited else choices.measured
    return Evaluation(value, chance, here.sd[0], allowed, _value_of_nothing(choices, value, chance))


def _value_of_nothing(choices: Choices, value: Floats, chance: Floats) -> float:
    runs = choices.open | choices.measured
    if not choices.costs.goal.limited or not runs.any():
        return _NO_DEPLOYMENT * float(value.min())
    return NOTHING * float(value[np.argmax(np.where(runs, chance, -1.0))])
