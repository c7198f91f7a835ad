"""emulate: what the command says where no emulation can or does run."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from cli.fake_client import Command
from mlcd_emulate.api.faults import ApiFaults
from mlcd_emulate.command import _environment, fault
from mlcd_emulate.emulation import State
from mlcd_emulate.fault_injection import FaultInjector

STATE = State("lab", 1, "http://10.72.0.1:4566", "10.72.0.0/16", "us-east-1", "AKIA", "s", "k", 20.0, 34)


def test_status_of_nothing_says_how_to_start(mlcd: Command, tmp_path: Path) -> None:
    done = mlcd("emulate", "status", "--dir", str(tmp_path))
    assert done.code == 102
    assert "mlcd emulate up --name default" in done.err


def test_the_exports_name_the_python_with_the_packages_unless_another_one_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MLCD_HOME", str(tmp_path))
    monkeypatch.delenv("MLCD_EC2_PYTHON", raising=False)
    assert _environment(STATE)["MLCD_EC2_PYTHON"] == sys.executable
    monkeypatch.setenv("MLCD_EC2_PYTHON", "/opt/mine/bin/python")
    assert _environment(STATE)["MLCD_EC2_PYTHON"] == "/opt/mine/bin/python"


def test_a_fault_needs_an_emulation(mlcd: Command, tmp_path: Path) -> None:
    assert mlcd("emulate", "fault", "slow", "10.72.0.4", "--dir", str(tmp_path)).code == 102


def test_every_fault_is_in_the_help_and_on_the_page() -> None:
    kinds = FaultInjector(None, ApiFaults()).kinds  # without hosts
    declared = get_type_hints(fault, include_extras=True)["kind"].__metadata__[0]
    assert re.split(r", | or |\.$", declared.help)[:-1] == kinds
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "emulated-ec2.md").read_text()
    assert re.findall(r"^\| `([\w-]+)` \|", page.partition("| fault |")[2].partition("\n\n")[0], re.MULTILINE) == kinds


def test_a_bad_name_is_refused(mlcd: Command, tmp_path: Path) -> None:
    done = mlcd("emulate", "up", "--name", "My Lab", "--dir", str(tmp_path))
    assert done.code == 2
    assert "cannot be called 'My Lab'" in done.err


def test_without_root_nothing_starts(mlcd: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for command in ("up", "down"):
        done = mlcd("emulate", command, "--dir", str(tmp_path))
        assert done.code == 2
        assert "needs root" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look for what an emulation left")
def test_down_without_an_emulation_is_quiet(mlcd: Command, tmp_path: Path) -> None:
    done = mlcd("emulate", "down", "--name", "nosuch", "--dir", str(tmp_path))
    assert (done.code, done.out) == (0, "Nothing is left of nosuch.\n")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--network", "10.72.0.0/99", "no range of addresses"),
        ("--network", "10.72.0.0/24", "has not the size /16"),
        ("--vcpus-per-core", "0", "larger than this computer"),
    ],
)
def test_senseless_options_are_refused(mlcd: Command, tmp_path: Path, option: str, value: str, said: str) -> None:
    done = mlcd("emulate", "up", "--dir", str(tmp_path), option, value)
    assert done.code == 2
    assert said in done.err
