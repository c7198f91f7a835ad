"""A study read once: features, stakes, beliefs and what may be tried, row by row of the space.

Glossary (N deployments of the space):
    measured     the program ran there: (N,)
    open         may be tried: not tried, not pending, and a reserve stays whole: (N,)
    next         may be tried now: the open ones, and of these the cheap ones for the first probe: (N,)
    reserve      what the training on a measured deployment takes, at the slow end of what is believed
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
from mlcd.search.limits import PROBE_SURCHARGE, room_for_probes

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
    """Which probes leave the training on some measured deployment within both limits: (N,).

    It need not be the best one: whether a probe is worth losing that is weighed in auto_worth.
    """
    study, stakes = board.study, board.stakes
    if not stakes.goal.limited:
        return np.ones(len(stakes.usd), dtype=bool)
    free = room_for_probes(study, None)
    reserves = _reserves(board) or [(0.0, 0.0)]
    seconds, usd = (PROBE_SURCHARGE * each for each in (stakes.probe_seconds, stakes.probe_usd))
    kept = [(seconds <= free.seconds - held[0]) & (usd <= free.usd - held[1]) for held in reserves]
    some: Bools = np.any(kept, axis=0)
    return some


def _reserves(board: Board) -> list[tuple[float, float]]:
    """Seconds and dollars of the training on each measured deployment that surely keeps the limits."""
    stakes, rows = board.stakes, np.flatnonzero(board.measured)
    own, mean, sd = stakes.take(rows), board.beliefs.mean[rows], board.beliefs.sd[rows]
    slow = mean - RISK_SD * sd
    seconds = own.start_seconds + own.work * np.exp(-slow)
    usd = own.usd * np.maximum(seconds, own.least_seconds) / 3600.0
    safe = slow >= own.required()
    return list(zip(seconds[safe].tolist(), usd[safe].tolist(), strict=True))
