"""A Slurm cluster as a cloud: its partitions are what is for sale, one allocation (a batch job) is a deployment.

    SlurmCloud ──► sinfo, squeue, scancel (on this computer, or by ssh on the login node)
       └──► runner (mlcd.clouds.remote) ──► sbatch ──► host (srun starts one on each node) ──► agent ──► the user's program
                  └───────────── files in a folder that login node and nodes share ─────────────┘

A batch job carries the task in its name and its comment, so that whoever asks Slurm finds it again. On each node srun starts a
*host* (host.py), which runs what it is told by files and ends the allocation when nobody renews its lease. Agents, logs and
checkpoints are those of all machines elsewhere; they are read and written in the shared folder, not through the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mlcd.clouds.base import CloudPlugin
from mlcd.clouds.slurm.settings import SlurmSettings

if TYPE_CHECKING:
    from mlcd.clouds.base import Cloud
    from mlcd.core.view import Finding
    from mlcd.settings import Settings


def _open(settings: Settings, options: Mapping[str, str]) -> Cloud:
    from mlcd.clouds.slurm.cloud import SlurmCloud

    return SlurmCloud(settings.home, settings.of(SlurmSettings))


def _check(settings: Settings) -> Iterable[Finding]:
    from mlcd.clouds.slurm.checking import check

    return check(settings.home / "slurm", settings.of(SlurmSettings))


open_cloud = CloudPlugin(
    "slurm",
    _open,
    settings=SlurmSettings,
    check=_check,
    install="pip install 'mlcd[slurm]'",
    page="how-to/slurm.md",
)
