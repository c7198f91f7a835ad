"""An expected value with its 95 % interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, hypot, log

Z95 = 1.96


@dataclass(frozen=True)
class Estimate:
    """A positive quantity that is expected, and the interval that holds it in 95 of 100 cases."""

    value: float
    low: float
    high: float

    @property
    def log_spread(self) -> float:
        """Standard deviation of the logarithm."""
        return log(self.high / self.low) / (2 * Z95)

    def times(self, other: Estimate) -> Estimate:
        """The product of two estimates whose errors have nothing to do with each other."""
        return spread_around(self.value * other.value, hypot(self.log_spread, other.log_spread))

    def scaled(self, factor: float) -> Estimate:
        """The same in another unit."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)


def spread_around(value: float, log_spread: float, deviations: float = Z95) -> Estimate:
    """An estimate whose logarithm has that standard deviation."""
    factor = exp(min(deviations * log_spread, 50.0))
    return Estimate(value, value / factor, value * factor)
