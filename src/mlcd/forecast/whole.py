"""From a measured or expected speed to the time and money of the whole training, with its spread."""

from __future__ import annotations

from math import exp, hypot, log

from mlcd.core.machines import Deployment
from mlcd.core.plan import Forecast
from mlcd.core.study import Belief, Study
from mlcd.core.trial import Measurement

Z95 = 1.96  # a normal value lies within ± this many standard deviations in 95 of 100 cases

# What a probe of minutes cannot see of a training of hours: other neighbours, another data centre row,
# the slow end of the data set. Standard deviation, as a share of the speed.
UNSEEN_SHARE = 0.02


def forecast_training(study: Study, deployment: Deployment, measurement: Measurement) -> Forecast:
    """Time and money of the whole training on a deployment that was measured."""
    return forecast_at(study, deployment, measurement.samples_per_second, speed_error(measurement))


def forecast_belief(study: Study, belief: Belief) -> Forecast:
    """Time and money of the whole training on a deployment that is only believed in."""
    half_width = log(max(belief.high, belief.samples_per_second) / belief.samples_per_second)
    return forecast_at(study, belief.deployment, belief.samples_per_second, half_width / Z95)


def forecast_at(
    study: Study, deployment: Deployment, samples_per_second: float, relative_error: float
) -> Forecast:
    """Time and money of the whole training at that speed, known to that standard error ÷ speed."""
    factor = exp(Z95 * relative_error)
    expected, low, high = (
        study.training_seconds(deployment, speed)
        for speed in (samples_per_second, samples_per_second * factor, samples_per_second / factor)
    )
    return Forecast(
        seconds=expected,
        low_seconds=low,
        high_seconds=high,
        usd=deployment.usd(expected),
        low_usd=deployment.usd(low),
        high_usd=deployment.usd(high),
    )


def speed_error(measurement: Measurement) -> float:
    """Standard error ÷ speed of what the training will see: the measurement's own, and what it cannot see."""
    return hypot(measurement.relative_error, UNSEEN_SHARE)
