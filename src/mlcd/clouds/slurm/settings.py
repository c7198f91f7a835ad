"""Settings of the cloud slurm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlcd.settings import setting


@dataclass(frozen=True)
class SlurmSettings:
    """A Slurm cluster, as a cloud."""

    section: ClassVar[str] = "slurm"

    login: str = setting("", "the login node, reached by ssh", empty="this computer")
    user: str = setting("", "the login there", empty="your own")
    port: int = setting(22, "of its sshd")
    key: str = setting("~/.ssh/id_ed25519", "the private key")
    folder: str = setting("~/.mlcd-slurm", "for mlcd's files: on the login node and on all nodes the same")
    python: str = setting("python3", "the Python on the nodes, 3.9 or newer")
    before: str = setting("", "lines of shell at the start of each allocation, such as `module load python`")
    account: str = setting("", "the account that jobs are billed to")
    qos: str = setting("", "the quality of service")
    options: str = setting("", "more options for sbatch: `--reservation=class --licenses=matlab`")
    prices: str = setting("", "a CSV with the columns `partition`, `per` and `price`", empty="all is free of charge")
    usd_per_unit: float = setting(1.0, "US dollars for each unit of the price list")
    hours: float = setting(24.0, "the length of an allocation for a task with neither a limit nor a forecast")
    wait_seconds: float = setting(3600.0, "how long a task waits in the queue")
    lost_seconds: float = setting(30.0, "a node that does not answer for so long is lost")
    lease_seconds: float = setting(600.0, "allocations whose lease nobody renews for so long end by themselves")
