"""What the measured speeds say about all deployments of a space: the model that the Bayesian strategies share.

The process models the logarithm of the speed: speeds differ by orders of magnitude between deployments, and what
a deployment costs or saves is a ratio. The time T = S / speed of a training of S samples, its cost T × price, and
their product are then log-normal with the same spread, whatever the goal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from mlcd.core.study import Belief, Study
from mlcd.forecast.training_forecast import Z95
from mlcd.search import gp
from mlcd.search.arrays import Floats, Mask
from mlcd.search.concave import Bounds
from mlcd.search.table import StudyView, goal_values, study_view
from mlcd.search.trials import measured_trials

_GRID: Floats = np.linspace(-5.0, 5.0, 41)  # standard deviations: what is unlikely may still be worth most
_GRID_CHANCE: Floats = np.exp(-0.5 * _GRID**2) / np.exp(-0.5 * _GRID**2).sum()
_LEAST_ERROR = 0.01  # a perfect measurement is as wrong as that: no two runs are alike


@dataclass(frozen=True, eq=False)
class Speeds:
    """Expected logarithm of each deployment's samples per second and its standard deviation, (m,) each."""

    mean: Floats
    sd: Floats


def expect_speeds(view: StudyView) -> Speeds | None:
    """What to expect of every deployment; None where nothing was measured yet."""
    trials = [trial for trial in measured_trials(view.study) if trial.deployment in view.table.position]
    measurements = [trial.measurement for trial in trials if trial.measurement is not None]
    if not measurements:
        return None
    rows = view.table.rows(tuple(trial.deployment for trial in trials))
    values = np.log([measurement.samples_per_second for measurement in measurements])
    errors = np.array([max(measurement.relative_error, _LEAST_ERROR) for measurement in measurements])
    model = gp.fit(view.table.features[rows], view.table.kind[rows], values, errors**2)
    return Speeds(*model.predict(view.table.features, view.table.kind))


def speed_beliefs(study: Study) -> tuple[Belief, ...]:
    """What the model expects of every deployment, for explanations; none where nothing was measured."""
    view = study_view(study)
    speeds = expect_speeds(view)
    if speeds is None:
        return ()
    # Bounded, because a process that knows little may believe in speeds that no float can hold.
    mean = np.exp(np.clip(speeds.mean, -600.0, 600.0))
    band = np.exp(np.clip(Z95 * speeds.sd, 0.0, 100.0))
    columns = zip(view.table.deployments, mean, mean / band, mean * band, strict=True)
    return tuple(Belief(d, float(speed), float(low), float(high)) for d, speed, low, high in columns)


class SpeedBeliefs:
    """A strategy that believes of each deployment what the model says, whether or not it decides by that."""

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        return speed_beliefs(study)


@dataclass(frozen=True, eq=False)
class Trainings:
    """What the training on each deployment is expected to take, log-normal with spread `sd`; (m,) each."""

    seconds: Floats  # median
    usd: Floats  # median
    value: Floats  # median of what the goal makes small
    sd: Floats  # of the logarithm of all three

    def chance_within(self, seconds: Floats, usd: Floats) -> Floats:
        """Probability that the training needs no more than these."""
        share = np.minimum(_share(seconds, self.seconds), _share(usd, self.usd))
        chance: Floats = ndtr(np.log(np.maximum(share, 1e-300)) / self.sd)
        return chance

    def could_be_within(self, seconds: Floats, usd: Floats, z: float) -> Mask:
        """Whether z standard deviations of luck would be enough."""
        luck = np.exp(-z * self.sd)
        return np.asarray((self.seconds * luck <= seconds) & (self.usd * luck <= usd))


def expect_trainings(view: StudyView, speeds: Speeds) -> Trainings:
    """The whole training on each deployment, as far as the speeds tell."""
    seconds = view.training_seconds(np.exp(np.clip(speeds.mean, -600.0, 600.0)))
    usd = view.usd(seconds)
    # The start takes the same time at any speed: only the rest is uncertain.
    working = 1.0 - view.study.start_seconds / seconds
    sd = np.maximum(speeds.sd * working, 1e-9)
    return Trainings(seconds, usd, goal_values(view.study.goal, seconds, usd), sd)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What the training on each deployment may turn out to take, (k, m) each."""

    chance: Floats  # (k,) of each outcome
    seconds: Floats
    usd: Floats


def possible_outcomes(view: StudyView, speeds: Speeds, bounds: Bounds) -> Outcomes:
    """The whole training at speeds from far below to far above what is expected, none of them beyond the bounds."""
    log_speed = np.clip(speeds.mean + speeds.sd * _GRID[:, None], -600.0, 600.0)
    seconds = view.training_seconds(np.clip(np.exp(log_speed), bounds.low, bounds.high))
    return Outcomes(_GRID_CHANCE, seconds, view.usd(seconds))


def _share(have: Floats, need: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(need > 0.0, have / need, np.inf))
