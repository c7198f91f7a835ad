"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of recorded deployments beside the checkout; tests that need it are skipped without it."""
    folder = SHARED / "traces"
    if not folder.is_dir():
        pytest.skip("the recorded traces (../shared/traces) are not on this machine")
    return folder
