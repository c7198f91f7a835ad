"""What the whole training would take on each deployment: measured where it was tried, foretold where not."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from operator import itemgetter

from mlcd.core.machines import Deployment
from mlcd.core.plan import Forecast, Plan
from mlcd.core.records import JobRecord
from mlcd.core.study import Belief, Ledger, Study
from mlcd.core.trial import Trial
from mlcd.core.units import show_usd
from mlcd.core.view import JobStory, JobView
from mlcd.forecast.training_forecast import forecast_belief, forecast_training


@dataclass(frozen=True)
class TrainingEstimate:
    """Time and money of the training alone on one deployment."""

    deployment: Deployment
    seconds: float
    low_seconds: float
    high_seconds: float
    usd: float
    measured: bool
    modelled: bool = False  # by the job's performance models

    @property
    def known_by(self) -> str:
        """Where the numbers come from."""
        return "a probe" if self.measured else "the models" if self.modelled else "the strategy"

    def total(self, search: Ledger) -> Ledger:
        """With what the search has cost: what the limits are held against."""
        return Ledger(search.seconds + self.seconds, search.usd + self.usd)


def training_estimates(story: JobStory) -> tuple[TrainingEstimate, ...]:
    """One for each deployment that was measured or is believed in, measured ones first."""
    view = story.view
    measured = {trial.deployment: estimate_of_trial(view, trial) for trial in view.trials}
    beliefs = story.beliefs[-1] if story.beliefs else ()
    believed = [estimate_of_belief(view, belief) for belief in beliefs if belief.deployment not in measured]
    known = [estimate for estimate in (*measured.values(), *believed) if estimate is not None]
    return tuple(known)


def estimate_of_trial(view: JobView, trial: Trial) -> TrainingEstimate | None:
    """What the trial promises for the whole training; None: it failed, or the work is not known."""
    forecast = _forecasts(view.record.plan).get(trial.deployment)
    seen = trial.measurement
    if seen is None:
        return None
    if forecast is not None:
        return _from_forecast(trial.deployment, forecast)
    if not _tells(view, trial.deployment, seen.samples_per_second):
        return None
    return _from_forecast(trial.deployment, forecast_training(_study_of(view), trial.deployment, seen))


def estimate_of_belief(view: JobView, belief: Belief) -> TrainingEstimate | None:
    """What the models, or the strategy where there are none, expect of the whole training there: as the plan reckons."""
    if not _tells(view, belief.deployment, belief.samples_per_second):
        return None
    forecast = forecast_belief(_study_of(view), belief)
    return _from_forecast(belief.deployment, forecast, measured=False, modelled=belief.modelled)


def chosen(story: JobStory) -> TrainingEstimate | None:
    """What the plan expects of the deployment that it takes."""
    plan = story.view.record.plan
    if plan is None:
        return None
    measured = any(trial.deployment == plan.deployment and trial.measurement for trial in story.view.trials)
    return _from_forecast(plan.deployment, plan.forecast, measured=measured)


def _forecasts(plan: Plan | None) -> dict[Deployment, Forecast]:
    if plan is None:
        return {}
    others = {other.deployment: other.forecast for other in plan.alternatives if other.forecast is not None}
    return {**others, plan.deployment: plan.forecast}


def _from_forecast(
    deployment: Deployment, forecast: Forecast, *, measured: bool = True, modelled: bool = False
) -> TrainingEstimate:
    seconds = (forecast.seconds, forecast.low_seconds, forecast.high_seconds)
    return TrainingEstimate(deployment, *seconds, forecast.usd, measured, modelled)


def _study_of(view: JobView) -> Study:
    """What a forecast of the whole training needs to know, as when the plan was made."""
    record = view.record
    done = record.plan.trained if record.plan is not None else 0.0
    work = record.job.work.samples if record.job.work is not None else 0.0
    return Study(
        goal=view.goal,
        space=(),
        samples=max(1.0, record.samples_at.get(0, work) - done),
        samples_at={batch: max(1.0, samples - done) for batch, samples in record.samples_at.items()},
        samples_spread=record.samples_spread,
        start_seconds=view.start_seconds,
    )


def _tells(view: JobView, deployment: Deployment, samples_per_second: float) -> bool:
    """Whether a speed tells a time: the work is known, and it is one."""
    return view.work(deployment) > 0 and samples_per_second > 0 and isfinite(samples_per_second)


def prices_by_type(deployment: Deployment) -> str:
    """What workers and parameter servers cost an hour, each by themselves; nothing where they are of one type."""
    if deployment.server_offer is None:
        return ""
    return ", ".join(f"{group} at {show_usd(group.usd_per_hour)}/h" for group in deployment.groups)


def samples_by_batch(record: JobRecord, chosen: Deployment) -> str:
    """How much is to be trained, where that differs by the batch size; nothing where it does not."""
    least, most = (choose(record.samples_at.items(), key=itemgetter(1), default=(0, 0.0)) for choose in (min, max))
    if most[1] <= least[1]:
        return ""
    here = record.samples(chosen)
    batch, samples = most if here < most[1] else least
    return f"{here:,.0f} to train at batch {chosen.batch_size}; it would be {samples:,.0f} at batch {batch}"
