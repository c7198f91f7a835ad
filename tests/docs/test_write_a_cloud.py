"""The cloud that docs/how-to/write-a-cloud.md builds is an outside package that works: settings, check, contract, kill."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from doc_pages import DOCS, blocks_of
from loopback_machines import Door, open_door

pytestmark = pytest.mark.slow

PAGE = DOCS / "how-to" / "write-a-cloud.md"
MOST_LINES = 150


@dataclass(frozen=True)
class Package:
    """The installed package, and how it is run."""

    folder: Path
    environ: dict[str, str]

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )

    def mlcd(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.run("-c", "import sys; from mlcd.cli.main import main; sys.exit(main())", *arguments, **environ)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A running sshd."""
    pytest.importorskip("asyncssh", reason="pip install 'mlcd[ec2]'")
    if not Path("/usr/sbin/sshd").exists():
        pytest.skip("there is no OpenSSH server on this machine")
    with open_door(tmp_path_factory.mktemp("sshd")) as door:
        yield door


@pytest.fixture
def package(door: Door, tmp_path: Path) -> Package:
    """The blocks of the page, as pip would install them."""
    (tmp_path / "mlcd_ssh.py").write_text(code())
    (tmp_path / "test_ssh.py").write_text(shown("python", "package test"))
    metadata = tmp_path / "mlcd_ssh-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mlcd-ssh\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points())
    settings = {"HOSTS": "127.0.0.1", "PORT": str(door.port), "USER": door.user, "KEY": str(door.key)}
    settings |= {"FOLDER": str(tmp_path / "machine"), "PYTHON": sys.executable}
    ours = {f"MLCD_SSH_{name}": value for name, value in settings.items()}
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "MLCD_HOME": str(tmp_path / "home"), **ours}
    return Package(tmp_path, {**environ, "COLUMNS": "200"})


def test_the_cloud_shown_is_small() -> None:
    assert len([line for line in code().splitlines() if line.strip()]) < MOST_LINES


def test_its_check_and_its_offers_are_those_of_the_settings(package: Package) -> None:
    checked = package.mlcd("check", "ssh")
    assert checked.returncode == 0, checked
    assert "127.0.0.1" in checked.stdout
    assert "Python 3" in checked.stdout
    offered = package.mlcd("offers", "--cloud", "ssh", "--json", MLCD_SSH_USD_PER_HOUR="0.75")
    assert '"usd_per_hour": 0.75' in offered.stdout
    away = package.mlcd("check", "ssh", MLCD_SSH_PORT="1")
    assert away.returncode == 1
    assert "by hand" in away.stdout


def test_its_table_of_the_settings_file_is_read_and_checked(package: Package) -> None:
    (package.folder / "home").mkdir()
    file = package.folder / "home" / "config.toml"
    file.write_text("[ssh]\nvcpus = 4\n")
    assert '"vcpus": 4' in package.mlcd("offers", "--cloud", "ssh", "--json").stdout
    file.write_text("[ssh]\nhost = 'x'\n")
    refused = package.mlcd("offers")
    assert refused.returncode == 2
    assert "unknown setting 'host'" in refused.stderr
    assert "Did you mean 'hosts'?" in refused.stderr


def test_it_keeps_the_contract_and_survives_a_kill(package: Package) -> None:
    done = package.run("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "test_ssh.py")
    assert done.returncode == 0, done.stdout[-6000:]
    assert "passed" in done.stdout


def shown(language: str, mark: str) -> str:
    return "\n\n".join(block.text for block in blocks_of(PAGE) if (block.language, block.mark) == (language, mark))


def code() -> str:
    return shown("python", "package")


def entry_points() -> str:
    groups = tomllib.loads(shown("toml", "package"))["project"]["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups.items()]
    return "\n".join(lines)
