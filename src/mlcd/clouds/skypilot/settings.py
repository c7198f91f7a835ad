"""Settings of the cloud skypilot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlcd.settings import setting


@dataclass(frozen=True)
class SkyPilotSettings:
    """SkyPilot, as a cloud."""

    section: ClassVar[str] = "skypilot"

    clouds: str = setting("", "which of SkyPilot's clouds are asked for offers: `gcp, azure`", empty="all")
    max_nodes: int = setting(8, "the most nodes of one deployment")
    key: str = setting("", "SkyPilot's private key", empty="where SkyPilot keeps it")
    folder: str = setting("", "where machines keep mlcd's files; none: in the login's home")
    python: str = setting("python3", "the Python on the machines")
    lost_seconds: float = setting(60.0, "a machine that does not answer for so long is lost")
    lease_seconds: float = setting(1800.0, "a cluster whose lease nobody renews for so long is taken down")
