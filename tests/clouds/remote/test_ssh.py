"""The way to a machine by ssh says what happened to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopback_machines import Door
from mlcd.clouds.remote.base import UnreachableError
from mlcd.clouds.remote.ssh import SshReach, make_key

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


def test_a_host_of_the_users_own_list_must_show_a_key_of_that_list(door: Door, tmp_path: Path) -> None:
    shown = (door.key.parent / "host.pub").read_text()
    other = make_key(tmp_path / "other")

    def reach(*keys: str) -> SshReach:
        listed = tmp_path / "known_hosts"
        listed.write_text("".join(f"[127.0.0.1]:{door.port} {key}\n" for key in keys))
        return SshReach("127.0.0.1", door.user, door.key, tmp_path / "first", str(tmp_path), door.port, listed)

    with pytest.raises(UnreachableError, match="key"):
        reach(other).run("echo in")
    for keys in ((other, shown), ()):  # one of several login nodes behind one name; a host that is not in the list
        entered = reach(*keys)
        assert entered.run("echo in").output.strip() == "in"
        entered.close()
