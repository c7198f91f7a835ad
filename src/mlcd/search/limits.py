"""Keeping the deadline and the budget during the search: the incumbent and its reserve.

The paper (section III.C, stop condition): "we reserve the necessary training cost required to finish training
from the optimal point found in the previous explorations". With a deployment in hand that is expected to keep the
limits nothing is tried that would lose it: what is spent, the next probe and the training on the incumbent must
stay within both limits. The training is counted at the slow end of its 95 % interval, so that noise does not break a
limit, and as expected where only that fits; the probe is counted with a surcharge. With none in hand a probe must
leave something to train with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from mlcd.core.goal import Goal
from mlcd.core.machines import Deployment
from mlcd.core.plan import Forecast
from mlcd.core.study import Ledger, Study
from mlcd.core.trial import Trial
from mlcd.forecast.training_forecast import forecast_training
from mlcd.search.trials import measured_trials

PROBE_SURCHARGE = 1.1  # a probe may take that much longer than expected


def best_feasible(study: Study) -> Trial | None:
    """The measured deployment to train on if the search ended now; None: none is expected to keep the limits.

    The surely feasible one that serves the goal best; where none is sure, the one that is expected to keep the
    limits with the most to spare. Its measurement is the average of all of that deployment.
    """
    hoped = [t for t in measured_trials(study) if study.goal.allows(*_pair(expected_total(study, t)))]
    sure = surely_feasible(study)
    return sure if sure is not None else nearest(study, hoped)


def surely_feasible(study: Study) -> Trial | None:
    """The best by the goal of those that keep the limits even at the slow end of their 95 % interval."""
    sure = [t for t in measured_trials(study) if study.goal.allows(*_pair(slow_total(study, t)))]
    return min(sure, key=lambda trial: goal_value(study, trial), default=None)


def nearest(study: Study, trials: Iterable[Trial] | None = None) -> Trial | None:
    """The measured deployment that passes the limits by the least, however far."""
    candidates = measured_trials(study) if trials is None else trials
    return min(candidates, key=lambda trial: study.goal.excess(*_pair(expected_total(study, trial))), default=None)


def goal_value(study: Study, trial: Trial) -> float:
    """What the aim makes small, if the training ran where this trial was measured."""
    return study.goal.value(*_pair(expected_total(study, trial)))


def expected_total(study: Study, trial: Trial) -> Ledger:
    """Time and money of the whole job if the training started now on a measured deployment."""
    forecast = _forecast(study, trial)
    return Ledger(study.spent.seconds + forecast.seconds, study.spent.usd + forecast.usd)


def slow_total(study: Study, trial: Trial) -> Ledger:
    """The same at the slow end of the 95 % interval."""
    forecast = _forecast(study, trial)
    return Ledger(study.spent.seconds + forecast.high_seconds, study.spent.usd + forecast.high_usd)


@dataclass(frozen=True)
class ProbeLimit:
    """What one more probe may cost at most."""

    seconds: float
    usd: float

    def admits(self, study: Study, deployment: Deployment) -> bool:
        """Whether trying this deployment keeps the reserve."""
        return (
            study.probe_seconds(deployment) * PROBE_SURCHARGE <= self.seconds
            and study.probe_usd(deployment) * PROBE_SURCHARGE <= self.usd
        )


def room_for_probes(study: Study, incumbent: Trial | None) -> ProbeLimit:
    """What the limits leave for a probe once the incumbent's training and the probes under way are set aside.

    Probes under way run beside the next one: they take its money, not its time.
    """
    held = study.spent if incumbent is None else _reserve(study, incumbent)
    pending_usd = sum(study.probe_usd(deployment) for deployment in study.pending) * PROBE_SURCHARGE
    deadline, budget = limits_of(study.goal)
    return ProbeLimit(deadline - held.seconds, budget - held.usd - pending_usd)


def _reserve(study: Study, incumbent: Trial) -> Ledger:
    """What is spent and the training on the incumbent: at its slow end, or as expected where only that fits."""
    for total in (slow_total(study, incumbent), expected_total(study, incumbent)):
        if study.goal.allows(*_pair(total)):
            return total
    return study.spent


def limits_of(goal: Goal) -> tuple[float, float]:
    """Deadline in seconds and budget in dollars; infinite where there is none."""
    deadline, budget = goal.limits
    return inf if deadline is None else deadline, inf if budget is None else budget


def limit_names(goal: Goal) -> tuple[str, ...]:
    """'deadline', 'budget', both or none."""
    named = zip(("deadline", "budget"), goal.limits, strict=True)
    return tuple(name for name, limit in named if limit is not None)


def _forecast(study: Study, trial: Trial) -> Forecast:
    if trial.measurement is None:
        raise ValueError(f"{trial.deployment} was not measured: it has no forecast")
    return forecast_training(study, trial.deployment, trial.measurement)


def _pair(ledger: Ledger) -> tuple[float, float]:
    return ledger.seconds, ledger.usd
