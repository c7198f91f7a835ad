"""What a function costs: memory size × time, to the millisecond, and each request; what its stores cost besides.

List prices of AWS Lambda, x86, first tier, as published; the settings go before them. Of S3 (standard) and of a parameter
store (ElastiCache for Valkey, cache.t4g.small, 1.37 GiB) it is us-east-1's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlcd_functions.settings import FunctionsSettings

PRICED_AT = "2026-08-01"
SOURCE = "AWS Lambda price list (x86, first tier)"
MB_PER_GB = 1024.0
FREE_DISK_MB = 512


@dataclass(frozen=True)
class Prices:
    """Of one region."""

    usd_per_gb_second: float = 0.0000166667
    usd_per_million_requests: float = 0.20
    usd_per_thousand_writes: float = 0.005  # S3: PUT, POST, LIST
    usd_per_thousand_reads: float = 0.0004  # S3: GET
    usd_per_store_hour: float = 0.0256  # between several functions
    usd_per_disk_gb_second: float = 0.0000000309  # of a function's disk beyond 512 MB

    def usd_per_hour(self, memory_mb: float) -> float:
        """One function of this size that never rests."""
        return self.usd_per_gb_second * memory_mb / MB_PER_GB * 3600.0

    def requests_usd(self, requests: int) -> float:
        """So many invocations."""
        return self.usd_per_million_requests * requests / 1e6

    def objects_usd(self, reads: float, writes: float) -> float:
        """So many requests to S3."""
        return (self.usd_per_thousand_reads * reads + self.usd_per_thousand_writes * writes) / 1000.0

    def reports_usd_per_hour(self, tick_seconds: float) -> float:
        """A report at every tick is written and read, and the instructions are read."""
        per_hour = 3600.0 / tick_seconds
        return self.objects_usd(2 * per_hour, per_hour)

    def disk_usd_per_hour(self, disk_mb: float) -> float:
        """What one function's disk costs on top; the first 512 MB come with it."""
        return self.usd_per_disk_gb_second * max(0.0, disk_mb - FREE_DISK_MB) / MB_PER_GB * 3600.0


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


def prices_of(settings: FunctionsSettings) -> Prices:
    """The region's, where the settings name no others."""
    listed = list_prices(settings.region)
    return replace(
        listed,
        usd_per_gb_second=settings.usd_per_gb_second or listed.usd_per_gb_second,
        usd_per_million_requests=settings.usd_per_million_requests or listed.usd_per_million_requests,
        usd_per_store_hour=settings.usd_per_store_hour,
    )
