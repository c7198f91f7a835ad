"""One emulated EC2 for all tests of this folder: starting it takes longer than most of them."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from emulated import EmulatedEc2, emulated_ec2


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedEc2]:
    """The emulation, started as under nohup: its hosts heed a hangup all the same."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with emulated_ec2(tmp_path_factory.mktemp("ec2")) as ec2:
        signal.signal(signal.SIGHUP, before)
        yield ec2


@pytest.fixture
def ec2(running: EmulatedEc2) -> Iterator[EmulatedEc2]:
    """The emulation, without a host when the test begins."""
    yield running
    running.terminate_all()
