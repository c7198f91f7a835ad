"""The model of conventional Bayesian optimisation: a Gaussian process on the target y(D) over D(m, n).

What the MLCD paper's ConvBO knows (section II.D) is the deployment scheme, instance type m and number of nodes n,
and the target that was measured there: the training speed, or, where money is what counts, speed for a dollar
(the reciprocal of the goal's value). It has no logarithms, no hardware facts and no prices: those are priors about
training, and without them is how the paper compares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from mlcd.core.study import Study
from mlcd.core.trial import Trial
from mlcd.search import gp
from mlcd.search.arrays import Floats
from mlcd.search.limits import goal_value
from mlcd.search.table import StudyView
from mlcd.search.trials import measured_trials


@dataclass(frozen=True, eq=False)
class Targets:
    """Expected target on each deployment and its standard deviation, (m,) each; more is better."""

    mean: Floats
    sd: Floats


def expected_improvement(best: float, mean: Floats, sd: Floats) -> Floats:
    """EI(D) = (y_o − μ)Φ(γ) + σφ(γ),  γ = (y_o − μ)/σ: equation 4 of the MLCD paper, its γ repaired."""
    gamma = (best - mean) / sd
    density = np.exp(-0.5 * gamma**2) / np.sqrt(2.0 * np.pi)
    improvement: Floats = (best - mean) * ndtr(gamma) + sd * density
    return np.maximum(improvement, 0.0)


def target(study: Study, trial: Trial) -> float:
    """Speed, or speed for a dollar, by what the goal makes small."""
    return 1.0 / goal_value(study, trial)


def expect_targets(view: StudyView) -> Targets | None:
    """What to expect of every deployment; None where nothing was measured yet."""
    trials = [trial for trial in measured_trials(view.study) if trial.deployment in view.table.position]
    if not trials:
        return None
    rows = view.table.rows(tuple(trial.deployment for trial in trials))
    values = np.array([target(view.study, trial) for trial in trials])
    errors = values * np.array([_relative_error(trial) for trial in trials])
    features = _scheme(view)
    model = gp.fit(features[rows], view.table.kind[rows], values, errors**2)
    return Targets(*model.predict(features, view.table.kind))


def _scheme(view: StudyView) -> Floats:
    """Nodes and batch size as they are, centred and of unit spread; the type is the process's category."""
    columns = np.column_stack([view.table.nodes, view.table.batch])
    spread = columns.std(axis=0)
    scaled: Floats = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scaled


def _relative_error(trial: Trial) -> float:
    return max(trial.measurement.relative_error, 0.01) if trial.measurement is not None else 0.01
