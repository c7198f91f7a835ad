"""From a measured or expected speed to the time and money of the whole training, with its spread."""

from __future__ import annotations

from dataclasses import replace
from math import hypot, log

from mlcd.core.machines import Deployment
from mlcd.core.plan import Forecast
from mlcd.core.study import Belief, Study
from mlcd.core.trial import Measurement
from mlcd.forecast.estimate import Estimate, spread_around

Z95 = 1.96  # a normal value lies within ± this many standard deviations in 95 of 100 cases

# What a probe of minutes cannot see of a training of hours: other neighbours, another data centre row,
# the slow end of the data set. Standard deviation, as a share of the speed.
UNSEEN_SHARE = 0.02
# A computer that is busy with other things is busy in another way when the training runs. So many times the
# swings that the probe saw within seconds lie between it and the training, however long it was. Measured in
# benchmarks/forecast_bands.
LASTING_SHARE = 2.5
MOST_LASTING = 0.5  # standard deviation ÷ speed, however unsteadily the probe went
# The start of a training takes longer or shorter than that of its probe: imports, compiling, files that are cached. So
# do all starts after it, where machines are taken back or live for a while only.
START_SHARE = 0.2
LEAST_SHARE = 0.1  # of the expected time, below which no band reaches


def forecast_training(study: Study, deployment: Deployment, measurement: Measurement) -> Forecast:
    """Time and money of the whole training on a deployment that was measured."""
    return forecast_at(study, deployment, measurement.samples_per_second, speed_error(measurement))


def forecast_belief(study: Study, belief: Belief) -> Forecast:
    """Time and money of the whole training on a deployment that is only believed in."""
    half_width = log(max(belief.high, belief.samples_per_second) / belief.samples_per_second)
    return forecast_at(study, belief.deployment, belief.samples_per_second, half_width / Z95)


def forecast_at(study: Study, deployment: Deployment, samples_per_second: float, relative_error: float) -> Forecast:
    """Time and money of the whole training at that speed, known to that standard error ÷ speed."""
    work = spread_around(study.work(deployment), study.samples_spread.get(deployment.batch_size or 0, 0.0))
    return forecast_working(study, deployment, work.times(spread_around(1.0 / samples_per_second, relative_error)))


def forecast_working(study: Study, deployment: Deployment, working: Estimate) -> Forecast:
    """Time and money of a training whose steps take so long in all (equation 3 of Scavenger), starts and losses added."""
    expected, fast, slow = (
        study.rented_seconds(deployment, seconds) for seconds in (working.value, working.low, working.high)
    )
    early, late = (
        replace(study, start_seconds=share * study.start_seconds).rented_seconds(deployment, working.value)
        for share in (1.0 - Z95 * START_SHARE, 1.0 + Z95 * START_SHARE)
    )
    fewest = expected - _last_start(study, deployment, working.value, expected)
    low = max(fewest - hypot(expected - fast, expected - early), LEAST_SHARE * expected)
    high = expected + hypot(slow - expected, late - expected)
    return Forecast(
        seconds=expected,
        low_seconds=low,
        high_seconds=high,
        usd=deployment.rental_usd(expected),
        low_usd=deployment.rental_usd(low),
        high_usd=deployment.rental_usd(high),
    )


def _last_start(study: Study, deployment: Deployment, working_seconds: float, expected_seconds: float) -> float:
    """What of the expected time may not come: machines that live for a while are started a whole number of times."""
    if deployment.offer.lifetime_seconds <= 0.0:
        return 0.0
    for_ever = replace(deployment, offer=replace(deployment.offer, lifetime_seconds=0.0))
    restarts = expected_seconds - study.rented_seconds(for_ever, working_seconds)
    return min(study.start_seconds, restarts)


def speed_error(measurement: Measurement) -> float:
    """Standard error ÷ speed of what the training will see: the measurement's own, and what it cannot see."""
    lasting = min(LASTING_SHARE * measurement.spread, MOST_LASTING)
    return hypot(measurement.relative_error, UNSEEN_SHARE, lasting)
