"""What to say where no deployment can keep the limits: which limit cannot be kept, and which one would be enough.

The message names a limit that no deployment keeps even by itself. Where each limit can be kept but no deployment keeps
both, it names both, and raising either one is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf

from mlcd.core.goal import Goal
from mlcd.core.machines import Deployment
from mlcd.core.plan import Forecast
from mlcd.core.study import Belief, Ledger, Study
from mlcd.core.units import show_duration, show_usd
from mlcd.errors import GoalUnreachableError
from mlcd.forecast.training_forecast import forecast_belief
from mlcd.search.limits import limit_names, limits_of
from mlcd.search.trials import measured_trials

MARGIN = 1.1  # beyond the slow end of the forecast: a search that goes on spends more, and wants to be sure
_DAYS_FROM = 48 * 3600.0  # longer ones are shown in days and hours


@dataclass(frozen=True)
class RaisedLimits:
    """A deployment with the limits to raise for it; None: that one need not be raised."""

    deployment: Deployment
    deadline_seconds: float | None = None
    budget_usd: float | None = None


def unreachable(
    study: Study, seen: Mapping[Deployment, Forecast], beliefs: Mapping[Deployment, Belief], why: str
) -> GoalUnreachableError:
    """The refusal: it names the limit that cannot be kept, and one that would be enough."""
    totals = _totals(study, seen, beliefs)
    limits = " and the ".join(_impossible_limits(study.goal, totals))
    what = f"keep the {limits}" if limits else "be trained on"
    message = f"No deployment can {what}. {sentence(why)}".rstrip()
    if not totals:
        return GoalUnreachableError(message, _hint_without_forecast(study))
    ways = _ways(study.goal, totals)
    if not ways:
        return GoalUnreachableError(message, _nearest_in_words(study, totals, seen))
    parts = [_in_words(way, tried=way.deployment in seen) for way in ways]
    hint = f"The nearest is {'; or '.join(parts)}."
    return GoalUnreachableError(message, hint, ways[0].deadline_seconds, ways[0].budget_usd)


def sentence(reason: str) -> str:
    """A searcher's own words as a sentence."""
    return reason and f"{reason[0].upper()}{reason[1:].rstrip('.')}."


def _totals(
    study: Study, seen: Mapping[Deployment, Forecast], beliefs: Mapping[Deployment, Belief]
) -> dict[Deployment, Ledger]:
    """What the whole job would take at the slow end, with what is spent and what has to be tried first.

    What is believed of untried deployments counts once anything was measured.
    """
    spent = study.spent
    totals = {d: Ledger(spent.seconds + f.high_seconds, spent.usd + f.high_usd) for d, f in seen.items()}
    if not measured_trials(study) and not any(study.earlier):
        return totals
    for deployment, belief in beliefs.items():
        if deployment not in study.tried and deployment not in totals:
            slow = forecast_belief(study, belief)
            seconds = spent.seconds + study.probe_seconds(deployment) + slow.high_seconds
            totals[deployment] = Ledger(seconds, spent.usd + study.probe_usd(deployment) + slow.high_usd)
    return totals


def _impossible_limits(goal: Goal, totals: Mapping[Deployment, Ledger]) -> tuple[str, ...]:
    deadline, budget = limits_of(goal)
    late = all(total.seconds > deadline for total in totals.values())
    expensive = all(total.usd > budget for total in totals.values())
    alone = tuple(name for name, impossible in (("deadline", late), ("budget", expensive)) if impossible)
    return alone if totals and alone else limit_names(goal)


def _ways(goal: Goal, totals: Mapping[Deployment, Ledger]) -> list[RaisedLimits]:
    """Raise the deadline alone, or the budget alone; both only where neither helps by itself."""
    deadline, budget = limits_of(goal)
    if any(goal.allows(total.seconds, total.usd) for total in totals.values()):
        return []
    cheap = [each for each, total in totals.items() if total.usd <= budget]
    soon = [each for each, total in totals.items() if total.seconds <= deadline]
    ways = []
    if cheap and deadline < inf:
        ways.append(_raised(goal, totals, min(cheap, key=lambda each: totals[each].seconds)))
    if soon and budget < inf:
        ways.append(_raised(goal, totals, min(soon, key=lambda each: totals[each].usd)))
    least = min(totals, key=lambda each: goal.excess(totals[each].seconds, totals[each].usd))
    return ways or [_raised(goal, totals, least)]


def _raised(goal: Goal, totals: Mapping[Deployment, Ledger], deployment: Deployment) -> RaisedLimits:
    total, (deadline, budget) = totals[deployment], limits_of(goal)
    return RaisedLimits(
        deployment,
        _round_seconds(MARGIN * total.seconds) if total.seconds > deadline else None,
        _round_usd(MARGIN * total.usd) if total.usd > budget else None,
    )


def _round_seconds(seconds: float) -> float:
    """Up, to what a duration is shown to."""
    step = 3600.0 if seconds >= _DAYS_FROM else 60.0 if seconds >= 3600.0 else 1.0
    return ceil(seconds / step) * step


def _round_usd(usd: float) -> float:
    """Up, to what an amount is shown to."""
    digits = 2 if usd >= 1 else 4 if usd >= 1e-4 else 8
    scale = 10.0**digits
    return round(ceil(usd * scale) / scale, digits)


def _in_words(way: RaisedLimits, tried: bool) -> str:
    where = f"{way.deployment}" if tried else f"{way.deployment}, estimated without trying it"
    needs = []
    if way.deadline_seconds is not None:
        needs.append(f"a deadline of {show_duration(way.deadline_seconds)}")
    if way.budget_usd is not None:
        needs.append(f"a budget of {show_usd(way.budget_usd)}")
    return f"{where}: {' and '.join(needs)} would be enough"


def _nearest_in_words(study: Study, totals: Mapping[Deployment, Ledger], seen: Mapping[Deployment, Forecast]) -> str:
    nearest = min(totals, key=lambda each: study.goal.excess(totals[each].seconds, totals[each].usd))
    untried = "" if nearest in seen else ", estimated without trying it"
    total = totals[nearest]
    return f"The nearest is {nearest}{untried}: {show_duration(total.seconds)} and {show_usd(total.usd)} in all."


def _hint_without_forecast(study: Study) -> str:
    if study.trials:
        return f"All {len(study.trials)} deployments that were tried failed: see their logs."
    if not limit_names(study.goal):
        return "Nothing was tried. The job has no limit that forbids it: see `search.options`."
    cheapest = min(study.space, key=study.probe_usd)
    cost = f"{show_duration(study.probe_seconds(cheapest))} and {show_usd(study.probe_usd(cheapest))}"
    return f"Nothing could be tried within the limits: trying {cheapest} alone takes about {cost}, before any training."
