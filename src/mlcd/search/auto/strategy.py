"""The decision of `auto`: the probe that saves most of the whole job, or the end of the search when none saves anything.

study ─▶ context: beliefs and costs of every deployment
      ─▶ shortlist: the few deployments that matter
      ─▶ value: what each probe would save of the job's hours or dollars, its price paid
      ─▶ the best probe, or Stop with the best choice
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from scipy.special import log_ndtr

import mlcd.search.auto.reasons as reasons
from mlcd.core.machines import Deployment
from mlcd.core.study import Belief, Stop, Study
from mlcd.search.arrays import Floats, Mask, Rows
from mlcd.search.auto.context import SearchContext, beliefs_of_study, make_context
from mlcd.search.auto.feasibility import chance_to_keep_limits
from mlcd.search.auto.outcomes import SURPRISE, Choices, Evaluation, choices_of, evaluate
from mlcd.search.auto.scaling_laws import Prior
from mlcd.search.auto.shortlist import Shortlist, shortlist
from mlcd.search.auto.value import gains
from mlcd.search.limits import limits_of

_GIVE_UP_FAILING = 0.9  # where nothing has ever run: give up above this chance of failure everywhere
_SMALL_CHANCE = 0.02  # refuse the goal below this chance that any deployment keeps the limits …
_TRUSTED_PROBES = 5  # … once this many were measured: with fewer, beliefs are not to be trusted so far
_SMALL_PART = 0.05  # of a limit: what a probe may cost that is not expected to find anything
_AS_LARGE = 0.75  # of the largest price: nearly as large


@dataclass(frozen=True)
class Auto:
    """Tries a deployment while that saves more of the job than it costs: value of information over scaling laws."""

    prior: Annotated[Prior, "what is believed before anything is measured"] = field(default_factory=Prior)

    def suggest(self, study: Study) -> Deployment | Stop:
        """The probe that is expected to save most of the whole job, or the end of the search."""
        if not study.space:
            return Stop(None, "there is nothing to choose from")
        context = make_context(study, self.prior)
        listed = shortlist(context)
        if not len(listed.choices):
            return Stop(None, reasons.waiting(study) if study.pending else reasons.nothing_works(study))
        return _decide(self, context, listed)

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        """Mean and 95 % band of every deployment's throughput."""
        if not study.space:
            return ()
        expected = beliefs_of_study(replace(study, pending=()), self.prior)
        band = 1.96 * expected.sd
        middle, low, high = (np.exp(expected.mean + shift) for shift in (0.0 * band, -band, band))
        rows = zip(study.space, middle.tolist(), low.tolist(), high.tolist(), strict=True)
        return tuple(Belief(*row) for row in rows)


def _decide(auto: Auto, context: SearchContext, listed: Shortlist) -> Deployment | Stop:
    study, choices = context.study, choices_of(context, listed.choices)
    now = evaluate(choices)
    if _out_of_reach(context, choices, now):
        if study.pending:
            return Stop(None, reasons.waiting(study))
        return _largest(context) or Stop(None, reasons.out_of_reach(study, _SMALL_CHANCE))
    if not study.probes_left or not len(listed.probes):
        return _stop(auto, study, choices, now, reasons.nothing_to_try(study))
    places = np.searchsorted(listed.choices, listed.probes)
    saved = gains(choices, now, context.beliefs.covariances(listed.probes, listed.choices), places)
    best = int(np.argmax(saved))
    if saved[best] > 0.0 or (now.best is None and not study.goal.limited and _may_run(context, choices, places)):
        return study.space[int(listed.probes[best])]
    if now.best is not None:
        hoped = _saving_share(choices, now, float(saved[best]), int(places[best]))
        reason = reasons.not_worth_it(study, study.space[int(listed.probes[best])], hoped)
        return _stop(auto, study, choices, now, reason)
    return _likeliest(context, choices, now, places)


def _saving_share(choices: Choices, now: Evaluation, saved: float, place: int) -> float:
    """What a probe saves before its price is taken off, as a share of the whole job."""
    price = float(choices.weights @ np.exp(choices.log_scale) * choices.costs.probe_value()[place])
    return max(0.0, saved + price) / now.best_value


def _may_run(context: SearchContext, choices: Choices, places: Rows) -> bool:
    """Whether the program may still run somewhere: one that has only ever failed is given up after a while."""
    ran = context.measured.any() or not context.study.trials
    return bool(ran or choices.failing[places].min() <= _GIVE_UP_FAILING)


def _out_of_reach(context: SearchContext, choices: Choices, now: Evaluation) -> bool:
    """Whether to give up the goal: nothing measured keeps the limits, and hardly anything else can."""
    study = context.study
    if not study.goal.limited or now.best is not None:
        return False
    if context.measured.sum() < _TRUSTED_PROBES:
        return False
    return chance_to_keep_limits(context.beliefs, choices) < _SMALL_CHANCE


def _largest(context: SearchContext) -> Deployment | None:
    """The largest deployment that costs a small part of the limits to try; None: one about as large was tried.

    No law foresees a jump in speed, such as the one where the memory is at last enough. Large deployments show it.
    """
    study, costs = context.study, context.costs
    seconds, usd = limits_of(study.goal)
    little = (costs.probe_seconds <= _SMALL_PART * seconds) & (costs.probe_usd <= _SMALL_PART * usd)
    if not (context.open & little).any() or not study.probes_left:
        return None
    most = costs.usd[context.open & little].max()
    if max(trial.deployment.usd_per_hour for trial in study.trials) >= _AS_LARGE * most:
        return None
    rows = np.flatnonzero(context.open & little & (costs.usd >= most))
    return study.space[int(rows[np.argmax((context.beliefs.mean - costs.required())[rows])])]


def _likeliest(context: SearchContext, choices: Choices, now: Evaluation, places: Rows) -> Deployment | Stop:
    """Where nothing measured keeps the limits: the deployment that is most likely to.

    Each belief is widened by SURPRISE, because no law foresees a jump in speed such as enough memory brings.
    """
    study = context.study
    if not _may_run(context, choices, places):
        return Stop(None, reasons.nothing_works(study))
    gaps = context.beliefs.mean[choices.rows[places]] - choices.costs.take(places).required_after_probe()
    keeps = log_ndtr(gaps / np.hypot(now.sd[places], SURPRISE))
    likeliest = int(np.argmax(keeps + np.log1p(-choices.failing[places])))
    return study.space[int(choices.rows[places[likeliest]])]


def _stop(auto: Auto, study: Study, choices: Choices, now: Evaluation, reason: str) -> Stop:
    """Stop with the best choice; what is still being tried counts as unknown."""
    if study.pending:
        answer = auto.suggest(replace(study, pending=(), max_probes=len(study.trials)))
        choice = answer.choice if isinstance(answer, Stop) else None
        return Stop(choice, f"{reason}; {reasons.waiting(study)}")
    row = _choice(choices, now)
    return Stop(None if row is None else study.space[row], reason)


def _choice(choices: Choices, now: Evaluation) -> int | None:
    """The best deployment that surely keeps the limits; else the most likely one, if it probably does.

    Without limits and without any probe: what is expected to be best.
    """
    if now.best is not None:
        return int(choices.rows[now.best])
    known = choices.measured if choices.measured.any() else ~choices.measured
    surest = _least_where(-now.chance if choices.costs.goal.limited else now.value, known)
    likely = now.chance[surest] > (0.5 if choices.measured.any() else 0.9)
    return int(choices.rows[surest]) if likely else None


def _least_where(scores: Floats, mask: Mask) -> int:
    return int(np.argmin(np.where(mask, scores, np.inf)))
