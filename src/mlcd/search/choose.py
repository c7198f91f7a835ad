"""The end of a search made into a plan: what to train on, what it will cost, why, and why nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mlcd.core.goal import Aim
from mlcd.core.machines import Deployment
from mlcd.core.plan import Alternative, Forecast, Plan
from mlcd.core.study import Belief, Stop, Study
from mlcd.core.trial import Failure, Measurement
from mlcd.core.units import show_duration, show_usd
from mlcd.errors import UserError
from mlcd.forecast.curves import knee, pareto_front
from mlcd.forecast.training_forecast import forecast_belief, forecast_training
from mlcd.search.limits import best_feasible, limit_names
from mlcd.search.trials import failed_trials, measured_trials
from mlcd.search.unreachable import sentence, unreachable

__all__ = ["best_feasible", "make_plan"]

_UNTRIED_SHOWN = 3
_LEAST_FOR_A_KNEE = 3


def make_plan(study: Study, stop: Stop, beliefs: tuple[Belief, ...] = ()) -> Plan:
    """The plan to train on what the search chose.

    Raises GoalUnreachableError where nothing was chosen or the choice would pass a limit; the hint names
    the deployment that comes nearest and the deadline or budget that it would need.
    """
    seen = _forecasts(study)
    stop = _balanced(study, stop, seen)
    expected = {belief.deployment: belief for belief in beliefs}
    if stop.choice is None:
        raise unreachable(study, seen, expected, stop.reason)
    forecast = _forecast_of_choice(study, stop.choice, seen, expected)
    if not study.goal.allows(*_total(study, forecast)):
        raise unreachable(study, {**seen, stop.choice: forecast}, expected, stop.reason)
    return Plan(
        deployment=stop.choice,
        forecast=forecast,
        search=study.spent,
        reason=_reason(study, stop, forecast, seen),
        alternatives=_alternatives(study, stop.choice, forecast, seen, expected),
        goal=study.goal,
    )


def _balanced(study: Study, stop: Stop, seen: dict[Deployment, Forecast]) -> Stop:
    """For the balanced aim the knee of what was measured, where there is enough to have one (Kneedle).

    A choice that was not tried comes from models of all deployments, of which the measured ones are a few.
    """
    if study.goal.aim is not Aim.BALANCED or stop.choice not in seen:
        return stop
    able = {id(each): d for d, each in seen.items() if study.goal.allows(*_total(study, each))}
    front = pareto_front(each for each in seen.values() if id(each) in able)
    if len(front) < _LEAST_FOR_A_KNEE:
        return stop
    return replace(stop, choice=able[id(knee(front))])


def _forecasts(study: Study) -> dict[Deployment, Forecast]:
    return {
        trial.deployment: forecast_training(study, trial.deployment, trial.outcome)
        for trial in measured_trials(study)
        if isinstance(trial.outcome, Measurement)
    }


def _forecast_of_choice(
    study: Study, choice: Deployment, seen: dict[Deployment, Forecast], expected: dict[Deployment, Belief]
) -> Forecast:
    if choice in seen:
        return seen[choice]
    if choice in expected:
        return forecast_belief(study, expected[choice])
    raise UserError(
        f"The search chose {choice} without trying it, and does not know how long the training would take.",
        "Let the strategy measure its choice, or take another strategy.",
    )


def _total(study: Study, forecast: Forecast) -> tuple[float, float]:
    return study.spent.seconds + forecast.seconds, study.spent.usd + forecast.usd


def _reason(study: Study, stop: Stop, forecast: Forecast, seen: dict[Deployment, Forecast]) -> str:
    rank = _rank(study, stop.choice, forecast, seen)
    training = f"The training takes about {show_duration(forecast.seconds)} and {show_usd(forecast.usd)}."
    parts = (
        rank,
        training,
        _risk(study, stop.choice, forecast),
        _limits_kept(study, forecast),
        sentence(stop.reason),
    )
    return " ".join(part for part in parts if part)


def _risk(study: Study, choice: Deployment | None, forecast: Forecast) -> str:
    """How often the machines are expected to be taken back, and what of the forecast is for that."""
    if choice is None or choice.losses_per_hour <= 0.0:
        return ""
    losses = choice.losses_per_hour * forecast.seconds / 3600.0
    lost = (forecast.seconds - study.start_seconds) * (1.0 - 1.0 / study.slowdown(choice.losses_per_hour))
    cost = f"{show_duration(lost)} and {show_usd(choice.usd(lost))}"
    return f"Of that, {cost} are for its machines being taken back, which is expected {losses:.2g} times."


def _rank(study: Study, choice: Deployment | None, forecast: Forecast, seen: dict[Deployment, Forecast]) -> str:
    if choice not in seen:
        return f"{choice} is expected to serve the goal best; it was not tried."
    able = [each for each in seen.values() if study.goal.allows(*_total(study, each))]
    limits = f" that can keep the {' and the '.join(limit_names(study.goal))}" if study.goal.limited else ""
    if len(able) == 1:
        return f"{choice} is the only measured deployment{limits}."
    value = study.goal.value(*_total(study, forecast))
    better = sum(study.goal.value(*_total(study, each)) < value for each in able)
    place = _SUPERLATIVES[study.goal.aim] if better == 0 else f"number {better + 1} by the goal"
    return f"{choice} is the {place} of {len(able)} measured deployments{limits}."


_SUPERLATIVES = {
    Aim.FASTEST: "fastest",
    Aim.CHEAPEST: "cheapest",
    Aim.BALANCED: "best balance of time and money",
}


def _limits_kept(study: Study, forecast: Forecast) -> str:
    seconds, usd = _total(study, forecast)
    kept = []
    if study.goal.deadline_seconds is not None:
        kept.append(f"{show_duration(seconds)} of the {show_duration(study.goal.deadline_seconds)} deadline")
    if study.goal.budget_usd is not None:
        kept.append(f"{show_usd(usd)} of the {show_usd(study.goal.budget_usd)} budget")
    return f"With the search that is {' and '.join(kept)}." if kept else ""


def _alternatives(
    study: Study,
    choice: Deployment,
    forecast: Forecast,
    seen: dict[Deployment, Forecast],
    expected: dict[Deployment, Belief],
) -> tuple[Alternative, ...]:
    measured = [
        Alternative(deployment, each, _why_not(study, each, forecast))
        for deployment, each in seen.items()
        if deployment != choice
    ]
    measured.sort(key=lambda alternative: _badness(study, alternative.forecast))
    failed = [
        Alternative(trial.deployment, None, f"failed: {trial.outcome.reason.value}")
        for trial in failed_trials(study)
        if isinstance(trial.outcome, Failure)
    ]
    return (*measured, *_untried(study, choice, forecast, expected), *failed)


def _badness(study: Study, forecast: Forecast | None) -> tuple[bool, float]:
    if forecast is None:
        return True, 0.0
    total = _total(study, forecast)
    return not study.goal.allows(*total), study.goal.value(*total)


def _untried(
    study: Study, choice: Deployment, forecast: Forecast, expected: dict[Deployment, Belief]
) -> Iterable[Alternative]:
    """The few untried deployments that are expected to come closest to the choice, or to beat it."""
    tried = study.tried | {choice}
    believed = [(d, forecast_belief(study, belief)) for d, belief in expected.items() if d not in tried]
    believed.sort(key=lambda pair: _badness(study, pair[1]))
    for deployment, each in believed[:_UNTRIED_SHOWN]:
        why = f"not tried; expected {_why_not(study, each, forecast)}{_not_worth(study, deployment, each, forecast)}"
        yield Alternative(deployment, each, why)


def _not_worth(study: Study, deployment: Deployment, other: Forecast, taken: Forecast) -> str:
    """That trying it takes more than it is expected to save."""
    seconds, usd = study.probe_seconds(deployment), study.probe_usd(deployment)
    if study.goal.aim is Aim.FASTEST and 0.0 < taken.seconds - other.seconds < seconds:
        return f", less than trying it takes ({show_duration(seconds)})"
    if study.goal.aim is Aim.CHEAPEST and 0.0 < taken.usd - other.usd < usd:
        return f", less than trying it costs ({show_usd(usd)})"
    return ""


def _why_not(study: Study, other: Forecast, taken: Forecast) -> str:
    seconds, usd = _total(study, other)
    deadline, budget = study.goal.deadline_seconds, study.goal.budget_usd
    if deadline is not None and seconds > deadline:
        return f"too slow: would end {show_duration(seconds - deadline)} after the deadline"
    if budget is not None and usd > budget:
        return f"too expensive: would pass the budget by {show_usd(usd - budget)}"
    slow = study.spent.seconds + other.high_seconds, study.spent.usd + other.high_usd
    better = study.goal.value(seconds, usd) < study.goal.value(*_total(study, taken))
    doubt = ", but less sure to keep the limits" if better and not study.goal.allows(*slow) else ""
    return _compare(study.goal.aim, other, taken) + doubt


def _compare(aim: Aim, other: Forecast, taken: Forecast) -> str:
    longer, more = other.seconds - taken.seconds, other.usd - taken.usd
    time = f"{'slower' if longer > 0 else 'faster'} by {show_duration(abs(longer))}"
    money = f"{'more expensive' if more > 0 else 'cheaper'} by {show_usd(abs(more))}"
    if aim is Aim.FASTEST:
        return time
    if aim is Aim.CHEAPEST:
        return money
    return f"{time}, {money}"
