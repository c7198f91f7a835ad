"""What functions are for sale: memory sizes of 128 MB to 10,240 MB, with the CPU share that comes with each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mlcd.core.machines import InstanceType, Offer
from mlcd_functions.prices import MB_PER_GB, PRICED_AT, SOURCE, Prices
from mlcd_functions.service.limits import vcpus

# The powers of two, and the sizes at which another whole vCPU is reached.
SIZES_MB = (128, 256, 512, 1024, 1769, 2048, 3072, 3538, 4096, 5307, 6144, 7076, 8192, 8845, 10240)
LARGEST_MB = SIZES_MB[-1]
MOST_FUNCTIONS = 200
_NETWORK_GBPS = 0.6  # about 75 MB/s each, whatever their size


@dataclass(frozen=True)
class Terms:
    """What holds for functions of every size."""

    region: str
    prices: Prices
    most: int  # functions of one task
    # Of one function by its memory: requests to S3, disk.
    extras_usd_per_hour: Callable[[int], float] = lambda memory_mb: 0.0
    lifetime_seconds: float = 0.0  # from an invocation to the next of the same rank
    most_memory_mb: int = LARGEST_MB


def make_offers(terms: Terms, priced_at: str = PRICED_AT) -> Iterator[Offer]:
    """All sizes that may be had, the smallest first."""
    for memory_mb in (size for size in SIZES_MB if size <= terms.most_memory_mb):
        yield Offer(
            cloud="functions",
            instance=instance_of(memory_mb),
            usd_per_hour=terms.prices.usd_per_hour(memory_mb),
            max_nodes=terms.most,
            region=terms.region,
            kind="function",
            priced_at=priced_at,
            source=SOURCE,
            extras_usd_per_hour=terms.extras_usd_per_hour(memory_mb),
            store_usd_per_hour=terms.prices.usd_per_store_hour,
            lifetime_seconds=terms.lifetime_seconds,
        )


def instance_of(memory_mb: int) -> InstanceType:
    """A function of this memory size, as a kind of machine."""
    return InstanceType(
        name=f"fn-{memory_mb}mb",
        vcpus=round(vcpus(memory_mb), 3),
        memory_gib=memory_mb / MB_PER_GB,
        network_gbps=_NETWORK_GBPS,
    )


def memory_of(offer: Offer) -> int:
    """The memory size of an offer, in MB."""
    return round(offer.instance.memory_gib * MB_PER_GB)
