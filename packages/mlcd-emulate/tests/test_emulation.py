"""An emulation is found again by its names."""

from __future__ import annotations

import dataclasses
import stat
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from mlcd.errors import NotFoundError, UserError
from mlcd_emulate.emulation import State, emulation_named, port_of, read_state, write_state

STATE = State("lab", 1, "http://10.72.0.1:4566", "10.72.0.0/16", "us-east-1", "AKIA", "secret", "key", 20.0, 34)


@pytest.mark.parametrize("name", ["", "Lab", "1lab", "my-lab", "averylongname", "lab/../x"])
def test_names_that_would_not_fit_the_system_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be called"):
        emulation_named(name, tmp_path)


def test_names_of_one_emulation_are_not_those_of_another(tmp_path: Path) -> None:
    one, two = emulation_named("a", tmp_path), emulation_named("ab", tmp_path)
    assert not two.switch.startswith(one.namespaces)
    assert len(emulation_named("tencharsok", tmp_path).link) <= 15
    assert len(port_of(IPv4Address("10.72.255.254"))) <= 15


def test_the_state_is_read_back_and_private(tmp_path: Path) -> None:
    emulation = emulation_named("lab", tmp_path)
    emulation.folder.mkdir()
    write_state(emulation, STATE)
    assert read_state(emulation) == STATE
    assert stat.S_IMODE(emulation.state_file.stat().st_mode) == 0o600


def test_no_state_and_a_broken_one_are_told_apart(tmp_path: Path) -> None:
    emulation = emulation_named("lab", tmp_path)
    with pytest.raises(NotFoundError, match="mlcd emulate up --name lab"):
        read_state(emulation)
    emulation.folder.mkdir()
    emulation.state_file.write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        read_state(emulation)


def test_keys_are_shown_to_nobody(tmp_path: Path) -> None:
    assert {"secret", "key"} & set(map(str, STATE.public.values())) == set()
    moved = dataclasses.replace(STATE, endpoint="http://10.99.0.1:1")
    assert moved.environment["NO_PROXY"] == "10.99.0.1"
