"""The way to a machine by ssh says what happened to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopback_machines import Door
from mlcd.clouds.remote.base import UnreachableError
from mlcd.clouds.remote.ssh import SshReach

HANG_UP = """
p=$PPID
until grep -q sshd /proc/$p/comm; do p=$(cut -d' ' -f4 /proc/$p/stat); done
kill -9 $p
sleep 60
"""


@pytest.fixture
def reach(door: Door, tmp_path: Path) -> SshReach:
    return SshReach("127.0.0.1", door.user, door.key, tmp_path / "known", str(tmp_path), door.port)


def test_a_connection_that_ends_before_the_command_is_told_as_that(reach: SshReach) -> None:
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1 does not answer: .*\w"):
        reach.run(HANG_UP)
    assert reach.run("echo again").output == "again\n"


def test_a_command_that_fails_gives_its_code_and_words(reach: SshReach) -> None:
    ran = reach.run("echo why >&2; exit 3")
    assert (ran.code, ran.output) == (3, "why\n")
