"""A machine keeps its lease by its own clock, whatever ours says."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from emulated import wait_for
from mlcd.clouds.remote.base import CommandResult
from mlcd.clouds.remote.lease import Lease
from mlcd.errors import CloudError

HOUR = 3600.0


class SkewedReach:
    """The way to a machine that is this computer, with a clock of its own."""

    def __init__(self, folder: Path, date: str) -> None:
        self.base = str(folder)
        (folder / "bin").mkdir()
        (folder / "bin" / "date").write_text(f"#!/bin/sh\n{date}\n")
        (folder / "bin" / "date").chmod(0o755)
        self._env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        done = subprocess.run(["bash", "-c", command], input=stdin, capture_output=True, env=self._env, check=False)
        return CommandResult(done.returncode, (done.stdout + done.stderr).decode())

    def write(self, path: str, content: bytes) -> None:
        Path(path).write_bytes(content)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR, 0.0])
def test_a_lease_is_as_long_as_it_should_be_where_the_clocks_differ(ahead: float, tmp_path: Path) -> None:
    reach = SkewedReach(tmp_path, f'exec /bin/date -d "{ahead:+.0f} seconds" "$@"')
    lease = Lease(reach, "", 1800.0)  # type: ignore[arg-type]  # it has what a lease needs
    before = time.time()
    lease.renew()
    machine_before, machine_after = before + ahead, time.time() + ahead
    until = float((tmp_path / "lease").read_text())
    slack = 1.0 + (machine_after - machine_before)
    assert machine_before + 1800 - slack <= until <= machine_after + 1800 + slack
    assert before + 1800 <= lease.until <= time.time() + 1800, "by our own clock, for the bill"


def test_a_lease_follows_a_clock_that_is_set_right_meanwhile(tmp_path: Path) -> None:
    reach = SkewedReach(tmp_path, 'exec /bin/date -d "$(cat "$0".ahead) seconds" "$@"')
    lease = Lease(reach, "", 1800.0)  # type: ignore[arg-type]  # as above
    for ahead in (HOUR, 0.0):
        (tmp_path / "bin" / "date.ahead").write_text(f"{ahead:+.0f}")
        before = time.time()
        lease.renew()
        assert abs(float((tmp_path / "lease").read_text()) - before - ahead - 1800.0) < 10.0
    assert lease.clock_ahead == 0.0


def test_a_time_that_cannot_be_is_none(tmp_path: Path) -> None:
    reach = SkewedReach(tmp_path, f"echo {'9' * 400}")
    with pytest.raises(CloudError, match="does not tell its time"):
        Lease(reach, "", 1800.0).renew()  # type: ignore[arg-type]  # as above


def test_a_machine_that_does_not_tell_its_time_is_told_of(tmp_path: Path) -> None:
    reach = SkewedReach(tmp_path, "echo no clock here >&2; exit 1")
    with pytest.raises(CloudError, match="no clock here"):
        Lease(reach, "", 1800.0).renew()  # type: ignore[arg-type]  # as above


class Moody(SkewedReach):
    """A machine that answers the first time with what nobody expects."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 'exec /bin/date "$@"')
        self.asked = 0

    def write(self, path: str, content: bytes) -> None:
        self.asked += 1
        if self.asked == 1:
            raise ValueError("nobody expects this")
        super().write(path, content)

    def close(self) -> None:
        """Nothing is open."""


def test_a_lease_is_renewed_again_whatever_went_wrong_before(tmp_path: Path) -> None:
    lease = Lease(Moody(tmp_path), "", 1800.0)  # type: ignore[arg-type]  # as above
    lease.hold()
    wait_for(lambda: lease.until, "the lease")
    lease.close()
