"""Hosts see this computer's software, and not its private things."""

from __future__ import annotations

import os
import stat
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from mlcd_emulate.image import folders_to_show, write_image, write_seed


def mount(folder: Path | str, kind: str = "ext4") -> str:
    return f"30 1 8:1 / {folder} rw,relatime shared:1 - {kind} /dev/x rw"


def test_other_file_systems_are_shown_and_unreal_ones_are_not(tmp_path: Path) -> None:
    table = "\n".join([mount("/"), mount("/usr"), mount("/proc", "proc"), mount("/sys/fs/cgroup/cpu", "cgroup")])
    lines = folders_to_show(table, hidden=[], needed=[])
    assert "show /usr" in lines
    assert not [line for line in lines if "/proc" in line or "/sys" in line or line == "show /"]


def test_what_python_needs_is_shown_though_it_lies_in_a_hidden_folder() -> None:
    needed = [Path("/tmp/checkout/.venv"), Path("/usr")]
    lines = folders_to_show(mount("/"), hidden=[Path("/home/me/.mlcd")], needed=needed)
    assert "hide /home/me/.mlcd" in lines
    assert lines.index("hide /tmp") < lines.index("show /tmp/checkout/.venv")
    assert "show /usr" not in lines


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_image_has_the_users_of_ec2(tmp_path: Path) -> None:
    write_image(tmp_path)
    accounts = dict(line.split(":", 1) for line in (tmp_path / "etc/passwd").read_text().splitlines())
    assert accounts["ubuntu"].startswith("x:1000:1000:")
    assert "ec2-user" in accounts
    numbers = [line.split(":")[2] for line in (tmp_path / "etc/passwd").read_text().splitlines()]
    assert numbers.count("1000") == 1
    assert stat.S_IMODE((tmp_path / "etc/shadow").stat().st_mode) == 0o640


def test_the_seed_lets_in_who_has_the_key(tmp_path: Path) -> None:
    write_seed(tmp_path, IPv4Address("10.72.0.4"), ["ssh-ed25519 AAAA me"])
    assert (tmp_path / "etc/ssh/authorized_keys").read_text() == "ssh-ed25519 AAAA me\n"


def test_hosts_know_the_names_of_their_neighbours(tmp_path: Path) -> None:
    write_seed(tmp_path, IPv4Address("10.72.0.4"), [])
    names = (tmp_path / "etc/hosts").read_text().splitlines()
    assert "10.72.0.4 ip-10-72-0-4.ec2.internal ip-10-72-0-4" in names
    assert "10.72.0.9 ip-10-72-0-9.ec2.internal ip-10-72-0-9" in names


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_every_user_reaches_a_python_in_a_private_folder(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "python").mkdir(parents=True)
    private.chmod(0o700)
    write_image(tmp_path / "image", [private / "python"])
    passage = tmp_path / "image" / private.relative_to("/")
    assert stat.S_IMODE(passage.stat().st_mode) == 0o701
