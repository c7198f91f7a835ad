"""The concerns that may move a run, most urgent first.

    leave_spot       there is no time left to lose machines that may be taken back (see spot.py)
    keep_limits      the measured speed would break a limit, and another deployment would keep it
    go_on_with_fewer nodes keep getting lost: fewer of them, where that is better than losing more
    grow_batch       the gradient noise allows a larger batch, and it is worth the move
    worth_moving     another deployment serves the goal better, the cost of moving included

Noise must not move a run: every policy waits until the speed has been watched for a while, compares the other
deployment at the low end of its band, and asks for a gain that is larger than what readings differ by. Each move
made raises the bar for the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlcd.adapt.base import Keep, Move, MoveCause, Policy, Situation
from mlcd.adapt.prospects import Prospect, allows, elsewhere, stay, value
from mlcd.adapt.spot import leave_spot
from mlcd.core.units import show_duration, show_rate, show_usd

WATCH_SECONDS = 10.0  # less than that says little about a speed
LEAST_GAIN = 0.10  # of what the aim makes small, in the rest of the job
GAIN_PER_MOVE = 0.05  # added to it for each move made
LOSSES_TO_SHRINK = 2  # on the same deployment
DEAREST_SHRINK = 1.5  # a smaller deployment may be worse by that factor and still beat losing more nodes


def keep_limits(situation: Situation) -> Keep | Move:
    """Leave a deployment that would break a limit for the best that surely keeps it."""
    here = stay(situation)
    if not situation.goal.limited or allows(situation, here.expected) or not _watched(situation):
        return Keep()
    able = [other for other in elsewhere(situation) if allows(situation, other.slow)]
    best = _best(situation, able)
    if best is None:
        return Keep()
    return Move(
        best.deployment,
        f"{situation.deployment} is slower than forecast and would take {_totals(here)} in all, past the limit; "
        f"{best.deployment} keeps it with {_totals(best)}",
        MoveCause.LIMIT,
    )


def go_on_with_fewer(situation: Situation) -> Keep | Move:
    """After repeated losses take fewer nodes of the same kind, where that costs not much more."""
    if situation.losses < LOSSES_TO_SHRINK:
        return Keep()
    smaller = [
        other
        for other in elsewhere(situation)
        if other.deployment.types == situation.deployment.types
        and other.deployment.nodes < situation.deployment.nodes
        and allows(situation, other.slow)
    ]
    best = _best(situation, smaller)
    bound = DEAREST_SHRINK * value(situation, stay(situation).expected)
    if best is None or value(situation, best.expected) > bound:
        return Keep()
    return Move(
        best.deployment,
        f"{situation.losses} nodes were lost on {situation.deployment}; {best.deployment} needs {_totals(best)} in all",
        MoveCause.LOSSES,
    )


def grow_batch(situation: Situation) -> Keep | Move:
    """Take a larger batch on the same machines once the noise is stable and large enough to allow it."""
    ours = situation.deployment.batch_size
    if ours is None or situation.noise_scale is None or not _watched(situation):
        return Keep()
    larger = [
        other
        for other in elsewhere(situation)
        if other.deployment.types == situation.deployment.types
        and (other.deployment.nodes, other.deployment.servers)
        == (situation.deployment.nodes, situation.deployment.servers)
        and ours < (other.deployment.batch_size or 0) <= situation.noise_scale
    ]
    return _if_worth_it(
        situation,
        larger,
        f"the gradient noise scale is {situation.noise_scale:,.0f} samples, so a larger batch loses little",
        MoveCause.BATCH_SIZE,
    )


def worth_moving(situation: Situation) -> Keep | Move:
    """Leave when another deployment serves the goal better by more than readings differ by."""
    if not _watched(situation):
        return Keep()
    return _if_worth_it(
        situation,
        list(elsewhere(situation)),
        f"{situation.deployment} runs at {show_rate(situation.now.samples_per_second)}{_expected(situation)}",
        MoveCause.VALUE,
    )


URGENT: tuple[Policy, ...] = (leave_spot, keep_limits, go_on_with_fewer)  # may undo what the user chose
POLICIES: tuple[Policy, ...] = (*URGENT, grow_batch, worth_moving)


def decide(situation: Situation, policies: Iterable[Policy] = POLICIES) -> Keep | Move:
    """What the most urgent concern asks for."""
    for policy in policies:
        decision = policy(situation)
        if isinstance(decision, Move):
            return decision
    return Keep()


def _if_worth_it(situation: Situation, others: list[Prospect], because: str, cause: MoveCause) -> Keep | Move:
    """Move to the best of these if it gains enough even at the low end of its band."""
    here = stay(situation)
    best = _best(situation, [other for other in others if allows(situation, other.slow)])
    if best is None:
        return Keep()
    bar = LEAST_GAIN + GAIN_PER_MOVE * situation.moves
    if _rest(situation, best, slow=True) > (1.0 - bar) * _rest(situation, here, slow=False):
        return Keep()
    return Move(
        best.deployment,
        f"{because}; {best.deployment} needs {_totals(best)} in all instead of {_totals(here)}",
        cause,
    )


def _expected(situation: Situation) -> str:
    """What it was measured or believed to run at, where that is more than it does: a node may straggle."""
    known = situation.speeds.get(situation.deployment)
    if known is None or known.low <= situation.now.samples_per_second:
        return ""
    return f" instead of {show_rate(known.samples_per_second)}"


def _rest(situation: Situation, prospect: Prospect, slow: bool) -> float:
    """What the aim makes small in the rest of the job: what is spent is spent either way."""
    totals = prospect.slow if slow else prospect.expected
    seconds, usd = totals.seconds - situation.spent.seconds, totals.usd - situation.spent.usd
    return situation.goal.value(seconds, usd)


def _best(situation: Situation, prospects: list[Prospect]) -> Prospect | None:
    return min(prospects, key=lambda prospect: value(situation, prospect.expected), default=None)


def _watched(situation: Situation) -> bool:
    return situation.watched_seconds >= WATCH_SECONDS


def _totals(prospect: Prospect) -> str:
    return f"{show_duration(prospect.expected.seconds)} and {show_usd(prospect.expected.usd)}"
