"""EC2 types that people train on, as facts: hardware as EC2 describes it, list prices of us-east-1 with their date.

Not for renting, which asks AWS itself, but for planning without an account, and for knowing which of EC2's 1,400 types to
ask about. p2 and p3 are no longer sold; they are here because much was measured on them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from mlcd.catalog.price_list import read_price_list
from mlcd.core.machines import Offer

FILE = Path(__file__).with_name("ec2_types.csv")


@cache
def listed_types() -> tuple[Offer, ...]:
    """All of them, as offers of the cloud ec2."""
    return tuple(read_price_list(FILE, "ec2"))
