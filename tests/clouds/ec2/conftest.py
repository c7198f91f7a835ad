"""One emulated EC2 for all tests of this folder, and the environment in which the cloud finds it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from emulated import EmulatedEc2, emulated_ec2


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedEc2]:
    """The emulation."""
    pytest.importorskip("boto3", reason="pip install 'mlcd[ec2]'")
    with emulated_ec2(tmp_path_factory.mktemp("ec2")) as ec2:
        yield ec2


@pytest.fixture
def ec2(running: EmulatedEc2, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedEc2]:
    """The emulation as the account of this process and its children; without a host when the test begins."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in running.env.items():
        monkeypatch.setenv(name, value)
    yield running
    running.terminate_all()
