"""A stand-in for SkyPilot whose machines are reached by a real sshd of this computer."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback_machines import Door, open_door
from mlcd.clouds.skypilot.settings import SkyPilotSettings

FAKE = Path(__file__).parent / "fake"


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A running sshd."""
    pytest.importorskip("asyncssh", reason="pip install 'mlcd[ec2]'")
    if not Path("/usr/sbin/sshd").exists():
        pytest.skip("there is no OpenSSH server on this machine")
    with open_door(tmp_path_factory.mktemp("sshd")) as door:
        yield door


@pytest.fixture
def sky_settings(tmp_path: Path, door: Door, monkeypatch: pytest.MonkeyPatch) -> Iterator[SkyPilotSettings]:
    """How to reach its machines; here and in the runners `import sky` is the stand-in."""
    (tmp_path / "sky").mkdir()
    monkeypatch.setenv("FAKE_SKY", str(tmp_path / "sky"))
    monkeypatch.setenv("FAKE_SKY_DOOR", json.dumps(door.options))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(str(FAKE))
    _forget_sky()
    importlib.invalidate_caches()
    yield SkyPilotSettings(folder=str(tmp_path / "machines"), max_nodes=4, lost_seconds=10)
    _forget_sky()


def _forget_sky() -> None:
    for name in [name for name in sys.modules if name == "sky" or name.startswith("sky.")]:
        del sys.modules[name]
