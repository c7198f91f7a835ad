"""An sshd to reach machines by, and a cloud of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback_machines import Door, open_door


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A running sshd."""
    pytest.importorskip("asyncssh", reason="pip install 'mlcd[ec2]'")
    if not Path("/usr/sbin/sshd").exists():
        pytest.skip("there is no OpenSSH server on this machine")
    with open_door(tmp_path_factory.mktemp("sshd")) as door:
        yield door


@pytest.fixture(autouse=True)
def _runners_find_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner imports the provider by name, from these tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
