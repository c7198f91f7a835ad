"""What the whole training would take on each deployment by its models, which is best by the goal, and what probes would save.

m   deployments of the space        k   outcomes of a training
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, log

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.core.plan import Forecast
from mlcd.core.study import Study
from mlcd.core.trial import Trial
from mlcd.forecast.training_forecast import Z95, forecast_training, forecast_working
from mlcd.search.arrays import Floats, Mask
from mlcd.search.candidates import affordable, left_after_probe
from mlcd.search.concave import speed_bounds
from mlcd.search.limits import PROBE_SURCHARGE, best_feasible, limits_of, room_for_probes
from mlcd.search.space_models import SpaceModels, place
from mlcd.search.speed_model import Speeds, expect_trainings, possible_outcomes
from mlcd.search.table import StudyView, goal_values, study_view
from mlcd.search.trials import measured_trials

_LEAST_SD = 1e-3
_MOST_DOUBT = 3.0  # standard deviation of the logarithm, beyond which a mean says no more


@dataclass(frozen=True, eq=False)
class Outlook:
    """A study with what its models foretell; all columns (m,)."""

    view: StudyView
    models: SpaceModels
    modelled: Mask  # a model speaks of it
    measured: Mask
    speeds: Speeds  # nothing where it is not modelled

    @cached_property
    def forecasts(self) -> dict[int, Forecast]:
        """Row → the training there: as measured, or as the models foretell it where it may be taken untried."""
        study, table = self.view.study, self.view.table
        found = {
            table.position[trial.deployment]: forecast_training(study, trial.deployment, trial.measurement)
            for trial in measured_trials(study)
            if trial.measurement is not None and trial.deployment in table.position
        }
        for row in np.flatnonzero(self.view.open & self.modelled & _seen_to_fit(self) & ~self.measured):
            deployment = table.deployments[int(row)]
            found[int(row)] = forecast_working(study, deployment, self.models.training_seconds(deployment))
        return found

    @cached_property
    def choice(self) -> Deployment | None:
        """The best by the goal, on average, of those that keep the limits at the slow end, else as expected; None: none does."""
        row = self._best_row
        return None if row is None else self.view.table.deployments[row]

    @cached_property
    def _best_row(self) -> int | None:
        study = self.view.study
        for slow in (True, False):
            able = {row: each for row, each in self.forecasts.items() if _keeps_limits(study, each, slow)}
            if able:
                return min(able, key=lambda row: _value(study, able[row]))
        return None

    @cached_property
    def affordable(self) -> Mask:
        """What may be probed: nothing that takes away the best measured deployment, or the choice."""
        return self.view.open & self.within_limits

    @cached_property
    def within_limits(self) -> Mask:
        """Which probes leave the limits for the training on the best measured deployment, and on the choice."""
        study = self.view.study
        if self._best_row is None:
            return self.beside_measured
        held, (deadline, budget) = self.forecasts[self._best_row], limits_of(study.goal)
        seconds = study.spent.seconds + held.seconds + PROBE_SURCHARGE * self.view.probe_seconds
        usd = study.spent.usd + held.usd + PROBE_SURCHARGE * self.view.probe_usd
        return np.asarray(self.beside_measured & (seconds <= deadline) & (usd <= budget))

    @cached_property
    def beside_measured(self) -> Mask:
        """Which probes leave the limits for the training on the best measured deployment."""
        return affordable(self.view, room_for_probes(self.view.study, self._held_trial))

    @property
    def best_measured(self) -> Deployment | None:
        """The measured deployment that the limits are kept for; None: none is expected to keep them."""
        return None if self._held_trial is None else self._held_trial.deployment

    @cached_property
    def _held_trial(self) -> Trial | None:
        return best_feasible(self.view.study)

    def net_saving(self) -> Floats:
        """What the whole job is expected to save on each deployment, beside the choice, less what its probe costs."""
        view, goal = self.view, self.view.study.goal
        here, seconds, usd = self._after_probe
        outcomes = possible_outcomes(view, self.speeds, speed_bounds(view))
        there = goal_values(goal, seconds + outcomes.seconds, usd + outcomes.usd)
        left_seconds, left_usd = left_after_probe(view)
        keeps = (outcomes.seconds <= left_seconds) & (outcomes.usd <= left_usd)
        saved = outcomes.chance @ np.where(keeps, np.maximum(here - there, 0.0), 0.0)
        return np.asarray(saved - self.probe_cost)

    @cached_property
    def probe_cost(self) -> Floats:
        """How much worse each probe makes the whole job, in the goal's unit, if the choice is trained on after it."""
        spent, held = self.view.study.spent, self._held
        here, _, _ = self._after_probe
        return here - self.view.study.goal.value(spent.seconds + held.seconds, spent.usd + held.usd)

    @property
    def _after_probe(self) -> tuple[Floats, Floats, Floats]:
        """The goal's value on the choice, and the seconds and dollars spent, after each probe."""
        view, spent, held = self.view, self.view.study.spent, self._held
        seconds, usd = spent.seconds + view.probe_seconds, spent.usd + view.probe_usd
        return goal_values(view.study.goal, seconds + held.seconds, usd + held.usd), seconds, usd

    @property
    def _held(self) -> Forecast:
        """Of the choice."""
        if self._best_row is None:
            raise ValueError("nothing keeps the limits: there is no choice to compare with")
        return self.forecasts[self._best_row]

    def chance_to_keep_limits(self) -> Floats:
        """After its probe."""
        return expect_trainings(self.view, self.speeds).chance_within(*left_after_probe(self.view))


def outlook_of(study: Study, models: SpaceModels) -> Outlook:
    """Read a study by its models."""
    view = study_view(study)
    count = len(study.space)
    modelled, measured = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    mean, sd = np.zeros(count), np.ones(count)
    measured[view.table.rows(tuple(trial.deployment for trial in measured_trials(study)))] = True
    for row, deployment in enumerate(study.space):
        if models.knows(deployment):
            speed = models.speed(deployment)
            modelled[row], mean[row] = True, np.log(speed.value)
            sd[row] = max(speed.log_spread, _LEAST_SD)
    return Outlook(view, models, modelled, measured, Speeds(mean, sd))


def _seen_to_fit(outlook: Outlook) -> Mask:
    """Whether a device of that type was seen to hold as many samples."""
    table, most = outlook.view.table, np.zeros(len(outlook.view.table.kinds))
    for profiles in outlook.models.profiles.values():
        for profile in profiles:
            if profile.placement.instance in table.kinds:
                kind = table.kinds.index(profile.placement.instance)
                most[kind] = max(most[kind], profile.placement.micro_batch)
    held = np.array([place(deployment).micro_batch for deployment in table.deployments])
    return np.asarray(held <= most[table.kind] * (1.0 + 1e-9))


def _keeps_limits(study: Study, forecast: Forecast, slow: bool) -> bool:
    seconds = forecast.high_seconds if slow else forecast.seconds
    usd = forecast.high_usd if slow else forecast.usd
    return study.goal.allows(study.spent.seconds + seconds, study.spent.usd + usd)


def _value(study: Study, forecast: Forecast) -> float:
    """What the aim makes small, on average: a training that is hardly known may take far longer, and never far less than nothing."""
    doubt = min(log(forecast.high_seconds / forecast.seconds) / Z95, _MOST_DOUBT)
    mean = exp(0.5 * doubt**2)  # of a log-normal value, beside its median
    return study.goal.value(study.spent.seconds + mean * forecast.seconds, study.spent.usd + mean * forecast.usd)
