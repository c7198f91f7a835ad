"""The default search: try what is worth more, in the goal's own unit, than it costs to try; then stop.

study ─▶ beliefs on every throughput            auto_laws, auto_model
      ─▶ the few deployments that matter        auto_shortlist
      ─▶ what each probe would save of the whole job's hours or dollars, its price paid    auto_worth
      ─▶ the best of them, or the end of the search when none saves anything
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
from scipy.special import log_ndtr

from mlcd.core.machines import Deployment
from mlcd.core.study import Belief, Stop, Study
from mlcd.search import auto_reasons as reasons
from mlcd.search.auto_board import Board, believe_study, set_up
from mlcd.search.auto_chance import chance_of_any
from mlcd.search.auto_failures import forbidden
from mlcd.search.auto_features import Bools, Floats, Rows
from mlcd.search.auto_laws import Prior
from mlcd.search.auto_scene import SURPRISE, Outlook, Scene, look, scene_of
from mlcd.search.auto_shortlist import Shortlist, shortlist
from mlcd.search.auto_worth import gains

_GIVE_UP_FAILING = 0.9  # chance of failure everywhere, when nothing has ever run
_SMALL_CHANCE = 0.02  # that any deployment keeps the limits: below it the goal is refused …
_SMALL_PART = 0.05  # of a limit that a probe may take which is not expected to find anything
_AS_LARGE = 0.75  # of the largest, by price: nearly as large
_TRUSTED_PROBES = 5  # … once so many were measured: fewer make no such belief trustworthy


@dataclass(frozen=True)
class Auto:
    """Value of information over rival scaling laws; see docs/explanation/auto-search.md."""

    prior: Prior = field(default_factory=Prior)

    def suggest(self, study: Study) -> Deployment | Stop:
        """The probe that is expected to save most of the whole job, or the end of the search."""
        if not study.space:
            return Stop(None, "there is nothing to choose from")
        board = set_up(study, self.prior)
        listed = shortlist(board.beliefs, board.stakes, board.measured, board.open, board.next)
        if not len(listed.choices):
            return Stop(None, reasons.waiting(study) if study.pending else reasons.nothing_works(study))
        return _decide(self, board, listed)

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        """Mean and 95 % band of every deployment's throughput."""
        if not study.space:
            return ()
        expected = believe_study(replace(study, pending=()), self.prior)
        band = 1.96 * expected.sd
        middle, low, high = (np.exp(expected.mean + shift) for shift in (0.0 * band, -band, band))
        rows = zip(study.space, middle.tolist(), low.tolist(), high.tolist(), strict=True)
        return tuple(Belief(*row) for row in rows)


def _decide(auto: Auto, board: Board, listed: Shortlist) -> Deployment | Stop:
    study, scene = board.study, _scene(board, listed.choices)
    now = look(scene)
    if _out_of_reach(board, scene, now):
        if study.pending:
            return Stop(None, reasons.waiting(study))
        return _largest(board) or Stop(None, reasons.out_of_reach(study, _SMALL_CHANCE))
    if not study.probes_left or not len(listed.probes):
        return _stop(auto, study, scene, now, reasons.nothing_to_try(study))
    places = np.searchsorted(listed.choices, listed.probes)
    saved = gains(scene, now, board.beliefs.covariances(listed.probes, listed.choices), places)
    best = int(np.argmax(saved))
    if saved[best] > 0.0 or (
        now.best is None and not study.goal.limited and _some_hope(board, scene, places)
    ):
        return study.space[int(listed.probes[best])]
    if now.best is not None:
        hoped = _hoped(scene, now, float(saved[best]), int(places[best]))
        reason = reasons.not_worth_it(study, study.space[int(listed.probes[best])], hoped)
        return _stop(auto, study, scene, now, reason)
    return _last_hope(board, scene, now, places)


def _scene(board: Board, rows: Rows) -> Scene:
    failing = forbidden(board.study, rows, board.failing[rows])
    return scene_of(board.beliefs, board.stakes, failing, board.measured[rows], board.open[rows], rows)


def _hoped(scene: Scene, now: Outlook, saved: float, place: int) -> float:
    """What a probe saves before it is paid for, as a share of the whole."""
    price = float(scene.weights @ np.exp(scene.log_scale) * scene.stakes.probe_value()[place])
    return max(0.0, saved + price) / now.best_value


def _some_hope(board: Board, scene: Scene, places: Rows) -> bool:
    """Whether something may still run: a program that has only ever failed is given up after a while."""
    ran = board.measured.any() or not board.study.trials
    return bool(ran or scene.failing[places].min() <= _GIVE_UP_FAILING)


def _out_of_reach(board: Board, scene: Scene, now: Outlook) -> bool:
    """Whether the goal is given up: nothing in hand keeps the limits, and hardly anything else can."""
    study = board.study
    if not study.goal.limited or now.best is not None:
        return False
    if board.measured.sum() < _TRUSTED_PROBES:
        return False
    return chance_of_any(board.beliefs, scene) < _SMALL_CHANCE


def _largest(board: Board) -> Deployment | None:
    """The most machines that can be tried for a small part of the limits; None: some as large were tried already.

    There are cliffs, such as enough memory at last, that no law foresees, and they lie where there is most of it.
    """
    study, stakes = board.study, board.stakes
    seconds, usd = (inf if limit is None else limit for limit in study.goal.limits)
    little = (stakes.probe_seconds <= _SMALL_PART * seconds) & (stakes.probe_usd <= _SMALL_PART * usd)
    if not (board.open & little).any() or not study.probes_left:
        return None
    most = stakes.usd[board.open & little].max()
    if max(trial.deployment.usd_per_hour for trial in study.trials) >= _AS_LARGE * most:
        return None
    rows = np.flatnonzero(board.open & little & (stakes.usd >= most))
    return study.space[int(rows[np.argmax((board.beliefs.mean - stakes.required())[rows])])]


def _last_hope(board: Board, scene: Scene, now: Outlook, places: Rows) -> Deployment | Stop:
    """With nothing that keeps the limits in hand: what is most likely to.

    Beliefs are not to be trusted to the last digit: there are cliffs, such as enough memory at last, that no law
    foresees. So each may be off by a surprise.
    """
    study = board.study
    if not _some_hope(board, scene, places):
        return Stop(None, reasons.nothing_works(study))
    gaps = board.beliefs.mean[scene.rows[places]] - scene.stakes.take(places).required_after_probe()
    keeps = log_ndtr(gaps / np.hypot(now.sd[places], SURPRISE))
    likeliest = int(np.argmax(keeps + np.log1p(-scene.failing[places])))
    return study.space[int(scene.rows[places[likeliest]])]


def _stop(auto: Auto, study: Study, scene: Scene, now: Outlook, reason: str) -> Stop:
    """The best choice; what is still being tried counts as unknown."""
    if study.pending:
        answer = auto.suggest(replace(study, pending=(), max_probes=len(study.trials)))
        choice = answer.choice if isinstance(answer, Stop) else None
        return Stop(choice, f"{reason}; {reasons.waiting(study)}")
    row = _choice(scene, now)
    return Stop(None if row is None else study.space[row], reason)


def _choice(scene: Scene, now: Outlook) -> int | None:
    """The best deployment that surely keeps the limits; else the surest, if it is more likely to than not.

    Without limits and without any probe it is what is expected to be best.
    """
    if now.best is not None:
        return int(scene.rows[now.best])
    known = scene.measured if scene.measured.any() else ~scene.measured
    surest = _least_where(-now.chance if scene.stakes.goal.limited else now.value, known)
    likely = now.chance[surest] > (0.5 if scene.measured.any() else 0.9)
    return int(scene.rows[surest]) if likely else None


def _least_where(scores: Floats, mask: Bools) -> int:
    return int(np.argmin(np.where(mask, scores, np.inf)))
