"""Settings for a quick and small EC2."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.settings import Settings


def ec2_settings(home: Path, **changes: Any) -> Settings:
    """Three small types in one region, with the Python of these tests."""
    given: dict[str, Any] = {
        "regions": "us-east-1",
        "types": "c5.large, c5.xlarge, m5.large",
        "disk_gib": 8,
        "python": sys.executable,
        "start_seconds": 5.0,
    }
    return Settings(home=home, clouds=(Ec2Settings(**{**given, **changes}),))
