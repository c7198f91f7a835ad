"""A study read once: features, stakes, beliefs and what may be tried, row by row of the space.

Glossary (N deployments of the space):
    measured     the program ran there: (N,)
    open         may be tried: not tried, not pending, and the reserve stays whole: (N,)
    next         may be tried now: the open ones, and of these the cheap ones for the first probe: (N,)
    reserve      what the training on the best measured deployment takes, at the slow end of what is believed
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.core.study import Study
from mlcd.core.trial import Measurement, Trial
from mlcd.search.auto_failures import chance_of_failure
from mlcd.search.auto_features import Bools, Features, Floats, describe, join
from mlcd.search.auto_laws import Prior, reference_of
from mlcd.search.auto_model import TYPICAL_ERROR, Beliefs, Evidence, believe
from mlcd.search.auto_scene import RISK_SD
from mlcd.search.auto_stakes import Stakes, stakes_of
from mlcd.search.limits import PROBE_SURCHARGE, best_feasible, room_for_probes, slow_total

_USUAL_SECONDS = 12 * 3600.0  # of a training on a large deployment, where no limit hints at it
_FIRST_SHARE = 0.25  # of the open probes, by price, from which the first is taken
_LIMIT_SHARE = 0.5  # of a limit that a large deployment takes: who sets one believes that it can be kept


@dataclass(frozen=True)
class Board:
    """All that the decision is made from."""

    study: Study
    beliefs: Beliefs
    stakes: Stakes
    failing: Floats  # chance of failure: (N,)
    measured: Bools
    open: Bools
    next: Bools


def set_up(study: Study, prior: Prior) -> Board:
    """The board of a study."""
    space = describe(study.space)
    stakes = stakes_of(study, space)
    beliefs = believe(space, _evidence(study), _guess_level(stakes, space), prior)
    measured = _mask(
        study, space, (trial.deployment for trial in study.trials if trial.measurement is not None)
    )
    failing = np.where(measured, 0.0, chance_of_failure(study, space))
    untried = ~_mask(study, space, study.tried)
    board = Board(study, beliefs, stakes, failing, measured, untried, untried)
    open_ = untried & _keeps_reserve(board)
    return replace(board, open=open_, next=open_ if measured.any() else _cheap(open_, stakes))


def believe_study(study: Study, prior: Prior) -> Beliefs:
    """The beliefs alone."""
    space = describe(study.space)
    return believe(space, _evidence(study), _guess_level(stakes_of(study, space), space), prior)


def _mask(study: Study, space: Features, deployments: Iterable[Deployment]) -> Bools:
    """Where these deployments are in the space. By features first: to look up each of thousands takes longer."""
    mask = np.zeros(len(space), dtype=bool)
    for deployment in deployments:
        one = describe([deployment])
        alike = (
            (space.type_id == one.type_id) & (space.nodes == one.nodes) & (space.log_batch == one.log_batch)
        )
        mask[[row for row in np.flatnonzero(alike) if study.space[row] == deployment]] = True
    return mask


def _evidence(study: Study) -> Evidence:
    """The measurements of this study and of earlier ones, and what is being measured."""
    studies = [_measured(trials) for trials in (study.trials, *study.earlier)]
    pairs = [pair for pairs in studies for pair in pairs]
    return Evidence(
        seen=join([describe([d for d, _ in pairs], number) for number, pairs in enumerate(studies)]),
        log_speed=np.log(np.array([seen.samples_per_second for _, seen in pairs], dtype=float)),
        error=np.array([max(TYPICAL_ERROR, seen.relative_error) for _, seen in pairs], dtype=float),
        pending=describe(study.pending),
    )


def _measured(trials: Iterable[Trial]) -> list[tuple[Deployment, Measurement]]:
    seen = [(trial.deployment, trial.measurement) for trial in trials]
    return [
        (deployment, each) for deployment, each in seen if each is not None and each.samples_per_second > 0
    ]


def _guess_level(stakes: Stakes, space: Features) -> float:
    """The job's level at which a large deployment takes the usual time, or that share of the nearer limit."""
    log_r, log_g = reference_of(space, space.take(np.arange(0))).hints(space)
    large = float(np.quantile(log_r + log_g + space.log_nodes, 0.9))
    seconds = _USUAL_SECONDS
    if stakes.goal.deadline_seconds is not None:
        seconds = _LIMIT_SHARE * stakes.goal.deadline_seconds
    elif stakes.goal.budget_usd is not None:
        seconds = _LIMIT_SHARE * stakes.goal.budget_usd * 3600.0 / float(np.quantile(stakes.usd, 0.9))
    return float(np.log(np.median(stakes.work) / max(seconds, 1.0)) - large)


def _cheap(open_: Bools, stakes: Stakes) -> Bools:
    """The cheap part of what is open: before anything is known of the job, no large sum is put at stake."""
    if not open_.any():
        return open_
    price = stakes.probe_value()
    cheap: Bools = open_ & (price <= np.quantile(price[open_], _FIRST_SHARE))
    return cheap


def _keeps_reserve(board: Board) -> Bools:
    """Which probes leave both limits whole, with the training on the best deployment in hand: (N,)."""
    stakes = board.stakes
    if not stakes.goal.limited:
        return np.ones(len(stakes.usd), dtype=bool)
    seconds, usd = _room(board)
    within: Bools = stakes.probe_seconds * PROBE_SURCHARGE <= seconds
    return within & (stakes.probe_usd * PROBE_SURCHARGE <= usd)


def _room(board: Board) -> tuple[float, float]:
    """Seconds and dollars that a probe may take."""
    study = board.study
    held = best_feasible(study)
    if held is not None:
        total = slow_total(study, held)
        if not study.goal.allows(total.seconds, total.usd):
            held = None
    room = room_for_probes(study, held)
    reserve = _reserve(board)
    free = room_for_probes(study, None)
    return min(room.seconds, free.seconds - reserve[0]), min(room.usd, free.usd - reserve[1])


def _reserve(board: Board) -> tuple[float, float]:
    """Seconds and dollars of the training on the best measured deployment that surely keeps the limits."""
    stakes, rows = board.stakes, np.flatnonzero(board.measured)
    mean, sd = board.beliefs.mean, board.beliefs.sd
    slow = mean[rows] - RISK_SD * sd[rows]
    own = stakes.take(rows)
    safe = slow >= own.required()
    if not safe.any():
        return 0.0, 0.0
    best = int(np.argmin(np.where(safe, own.value(own.work * np.exp(-mean[rows])), np.inf)))
    seconds = own.start_seconds + float(own.work[best] * np.exp(-slow[best]))
    return seconds, float(own.usd[best]) * seconds / 3600.0
