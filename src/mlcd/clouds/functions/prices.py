"""What a function costs: memory size × time, to the millisecond, and each request.

List prices of AWS Lambda, x86, first tier, as published; the settings go before them.
"""

from __future__ import annotations

from dataclasses import dataclass

PRICED_AT = "2026-08-01"
SOURCE = "AWS Lambda price list (x86, first tier)"
MB_PER_GB = 1024.0


@dataclass(frozen=True)
class Prices:
    """Of one region."""

    usd_per_gb_second: float = 0.0000166667
    usd_per_million_requests: float = 0.20

    def usd_per_hour(self, memory_mb: float) -> float:
        """One function of this size that never rests."""
        return self.usd_per_gb_second * memory_mb / MB_PER_GB * 3600.0

    def requests_usd(self, requests: int) -> float:
        """So many invocations."""
        return self.usd_per_million_requests * requests / 1e6


# Regions whose price differs from us-east-1's; where a region is not named, that one's is taken.
_DEARER = {
    "af-south-1": Prices(0.0000221, 0.27),
    "ap-east-1": Prices(0.00002292, 0.28),
    "eu-south-1": Prices(0.0000195172, 0.23),
    "me-south-1": Prices(0.0000206667, 0.25),
}


def list_prices(region: str) -> Prices:
    """As AWS lists them."""
    return _DEARER.get(region, Prices())
