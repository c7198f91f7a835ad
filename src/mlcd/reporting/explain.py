"""The plan in plain words: why this deployment, why not the others, and what better would take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from mlcd.core.goal import Goal
from mlcd.core.plan import Plan
from mlcd.core.study import Ledger
from mlcd.core.trial import Trial
from mlcd.core.units import show_duration, show_usd
from mlcd.core.view import JobStory, JobView
from mlcd.reporting.training_estimates import (
    TrainingEstimate,
    chosen,
    estimate_of_trial,
    samples_by_batch,
    training_estimates,
)

_MOST_REJECTED = 8  # listed one by one; the rest is counted


@dataclass(frozen=True)
class Paragraph:
    """A heading with its sentences."""

    title: str
    sentences: tuple[str, ...]


def explain(story: JobStory) -> tuple[Paragraph, ...]:
    """Everything that a reader may ask of the choice, from the numbers in the story alone."""
    best, plan = chosen(story), story.view.record.plan
    if best is None or plan is None:
        return (Paragraph("No deployment is chosen", _no_plan(story.view)),)
    passages = (
        Paragraph("Why this deployment", _why(plan, story.view)),
        Paragraph("What earlier jobs showed", _learnt(story)),
        Paragraph("What was not taken, and why", _rejected(story, best)),
        Paragraph("What better would take", _improvements(best, training_estimates(story))),
    )
    return tuple(passage for passage in passages if passage.sentences)


def _no_plan(view: JobView) -> tuple[str, ...]:
    were = "deployment was" if len(view.trials) == 1 else "deployments were"
    tried = f"{len(view.trials)} {were} tried, {show_usd(view.search.usd)} spent on it."
    return (
        f"State of the job: {view.record.state}.",
        tried,
        *([view.record.error] if view.record.error else []),
    )


def _why(plan: Plan, view: JobView) -> tuple[str, ...]:
    forecast = plan.forecast
    time = f"{show_duration(forecast.low_seconds)} to {show_duration(forecast.high_seconds)}"
    money = f"{show_usd(forecast.low_usd)} to {show_usd(forecast.high_usd)}"
    samples = samples_by_batch(view.record, plan.deployment)
    spread = f"Nineteen times in twenty the training should take {time} and cost {money}."
    return (view.plan_reason, spread, *([f"Samples: {samples}."] if samples else []))


def _learnt(story: JobStory) -> tuple[str, ...]:
    """What was reused of earlier jobs, how similar they are, and how many samples the job is expected to need."""
    return tuple(f"{event.message}." for event in story.events if event.kind == "learn")


def _rejected(story: JobStory, best: TrainingEstimate) -> tuple[str, ...]:
    reasons = _reasons(story, best)
    listed = [f"{name}: {why}" for name, why in list(reasons.items())[:_MOST_REJECTED]]
    if len(reasons) > _MOST_REJECTED:
        listed.append(f"{len(reasons) - _MOST_REJECTED} more were not taken either.")
    return (*listed, *_untried(story))


def _reasons(story: JobStory, best: TrainingEstimate) -> dict[str, str]:
    """Deployment → why it was not taken: in the plan's words where it has them, else from the numbers."""
    plan = story.view.record.plan
    said = {str(other.deployment): other.why_not for other in plan.alternatives} if plan is not None else {}
    seen = {str(trial.deployment): _why_not(story.view, trial, best) for trial in story.view.trials}
    reasons = {**seen, **{name: why for name, why in said.items() if why}}
    reasons.pop(str(best.deployment), None)
    return reasons


def _why_not(view: JobView, trial: Trial, best: TrainingEstimate) -> str:
    if trial.failure is not None:
        return f"it failed ({trial.failure.reason})."
    other = estimate_of_trial(view, trial)
    if other is None:
        return "its time for the whole job is not known."
    passed = _passed(view.goal, other.total(view.search))
    if passed:
        return passed
    return f"{_compare('time', other.seconds, best.seconds)}, {_compare('cost', other.usd, best.usd)}."


def _passed(goal: Goal, total: Ledger) -> str:
    if goal.deadline_seconds is not None and total.seconds > goal.deadline_seconds:
        late = show_duration(total.seconds - goal.deadline_seconds)
        return f"it would miss the deadline by {late}."
    if goal.budget_usd is not None and total.usd > goal.budget_usd:
        return f"it would pass the budget by {show_usd(total.usd - goal.budget_usd)}."
    return ""


def _compare(what: str, other: float, best: float) -> str:
    if best <= 0:
        return f"{what} cannot be compared"
    share = other / best - 1
    if abs(share) < 0.01:
        return f"the same {what}"
    return f"{abs(share):.0%} {'more' if share > 0 else 'less'} {what}"


def _untried(story: JobStory) -> tuple[str, ...]:
    tried = {trial.deployment for trial in story.view.trials}
    left = [deployment for deployment in story.space if deployment not in tried]
    if not left:
        return ()
    return (
        f"{len(left)} of {len(story.space)} deployments were not tried: trying them was expected to cost more than it saves.",
    )


def _improvements(best: TrainingEstimate, known: Sequence[TrainingEstimate]) -> tuple[str, str]:
    faster = f"Twice as fast ({show_duration(best.seconds / 2)})"
    cheaper = f"Half as expensive ({show_usd(best.usd / 2)})"
    return (
        _improvement(faster, attrgetter("seconds"), attrgetter("usd"), best, known),
        _improvement(cheaper, attrgetter("usd"), attrgetter("seconds"), best, known),
    )


def _improvement(
    title: str,
    share: Callable[[TrainingEstimate], float],
    prefer: Callable[[TrainingEstimate], float],
    best: TrainingEstimate,
    known: Sequence[TrainingEstimate],
) -> str:
    """The best of those that take half of what the choice takes, or how near anything comes."""
    enough = [one for one in known if share(one) <= share(best) / 2]
    if enough:
        return f"{title} would take {_described(min(enough, key=prefer))}."
    nearest = min(known, key=share, default=None)
    if nearest is None or nearest.deployment == best.deployment:
        return f"{title}: nothing else in this space comes nearer than the choice."
    return f"{title}: nothing in this space gets there; the nearest is {_described(nearest)}."


def _described(estimate: TrainingEstimate) -> str:
    source = "foretold by the models" if estimate.modelled else "believed"
    known = "measured" if estimate.measured else f"{source}, not measured"
    return f"{estimate.deployment}: {show_duration(estimate.seconds)} and {show_usd(estimate.usd)} ({known})"
