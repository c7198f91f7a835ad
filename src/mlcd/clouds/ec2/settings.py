"""Settings of the cloud ec2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlcd.core.losses import SPOT_LOSSES_PER_HOUR
from mlcd.settings import setting


@dataclass(frozen=True)
class Ec2Settings:
    """Amazon EC2. Credentials come from AWS's own files and variables."""

    section: ClassVar[str] = "ec2"

    regions: str = setting(
        "",
        "where machines are rented: `us-east-1, eu-west-1`; without it the default region of the credentials",
    )
    types: str = setting("", "which types are offered: `c5.*, g5.xlarge`; without it those commonly used for training")
    image: str = setting(
        "",
        "`ami-…`, or the name of a public parameter of Systems Manager; without it Ubuntu, with drivers where there are GPUs",
    )
    user: str = setting("ubuntu", "the user of that image")
    python: str = setting(
        "python3", "the Python on the machines, 3.9 or newer; of a path its folder comes first in `PATH`"
    )
    disk_gib: int = setting(64, "disk of each machine")
    ssh_from: str = setting("0.0.0.0/0", "addresses that may reach the machines by ssh, with the key alone")
    subnets: str = setting(
        "", "`subnet-…, subnet-…`: where machines are rented; they need a way to the internet", empty="the default ones"
    )
    let_in: str = setting("", "`sg-…, sg-…`: security groups whose members may reach the machines, too")
    lease_seconds: float = setting(1800.0, "a machine whose lease nobody renews for so long ends itself")
    lost_seconds: float = setting(20.0, "one that does not answer for so long is lost")
    keep_seconds: float = setting(
        45.0, "how long machines of a probe stay warm for the next task of their job; 0: not at all"
    )
    start_seconds: float = setting(90.0, "how long machines take to boot, for the first forecasts")
    spot_losses_per_hour: float = setting(
        SPOT_LOSSES_PER_HOUR, "how often spot machines are expected to be taken back, for forecasts"
    )
    prices: str = setting("", "a CSV file in the place of AWS's price list")
    max_price_age_days: float = setting(400.0, "older prices of a file are refused")
